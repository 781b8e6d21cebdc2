"""A secret is found however it was escaped, level within level, and in base64."""

import base64
import html
import json
import re
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.core.text.redaction import SECRET_CHARS_MIN, Redactor
from orchestrator.core.text.spellings import spelling
from tests.costs import slowness
from tests.texts import texts

Encoding = Callable[[str], str]

LABEL = "[env:X]"


def in_json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def in_ascii_json(text: str) -> str:
    return json.dumps(text)[1:-1]


def in_json_with_slashes(text: str) -> str:
    return in_json(text).replace("/", "\\/")


def in_json_for_html(text: str) -> str:
    """As Go writes it, and others with capital letters."""
    return re.sub("[<>&]", lambda found: f"\\u{ord(found[0]):04X}", in_json(text))


def in_url(text: str) -> str:
    return quote(text, safe="")


def in_path(text: str) -> str:
    return quote(text)


def in_form(text: str) -> str:
    return quote_plus(text)


def in_url_of_small_letters(text: str) -> str:
    return re.sub("%..", lambda found: found[0].lower(), in_url(text))


def in_html(text: str) -> str:
    return html.escape(text)


def in_html_of_ascii(text: str) -> str:
    return html.escape(text).encode("ascii", "xmlcharrefreplace").decode()


def in_python(text: str) -> str:
    return repr(text)[1:-1]


def in_ascii_python(text: str) -> str:
    return ascii(text)[1:-1]


def in_python_bytes(text: str) -> str:
    return repr(text.encode())[2:-1]


ENCODINGS: tuple[Encoding, ...] = (
    in_json,
    in_ascii_json,
    in_json_with_slashes,
    in_json_for_html,
    in_url,
    in_path,
    in_form,
    in_url_of_small_letters,
    in_html,
    in_html_of_ascii,
    in_python,
    in_ascii_python,
    in_python_bytes,
)
nestings = st.lists(st.sampled_from(ENCODINGS), max_size=3)
awkward = st.text(
    st.sampled_from("\\\\\"'/%&;<>+ =#\n\t\x00\x7fä密😀un25ab") | st.characters(exclude_categories=["Cs"]),
    min_size=SECRET_CHARS_MIN,
    max_size=14,
)


def nested(text: str, encodings: list[Encoding]) -> str:
    for encode in encodings:
        text = encode(text)
    return text


@given(secret=awkward, encodings=nestings)
@example(secret='ä"b"c/d\\efgh', encodings=[in_json, in_ascii_json])  # as UTF-8 within ASCII
@example(secret="%25%25%25%2", encodings=[in_url, in_url, in_url])
@example(secret="\\\\\\\\\\\\\\\\", encodings=[in_json, in_json, in_json])
@example(secret='\\"\n&amp;; 密', encodings=[in_html, in_json, in_url])
def test_a_secret_is_found_in_any_nesting_of_encodings(secret: str, encodings: list[Encoding]) -> None:
    text = nested(secret, encodings)
    assert Redactor({"env:X": secret}).text(text) == LABEL
    assert re.fullmatch(spelling(secret).pattern, text.encode())


@given(secret=awkward, before=texts(max_size=6), after=texts(max_size=6), encodings=nestings)
def test_whatever_stands_around_it(secret: str, before: str, after: str, encodings: list[Encoding]) -> None:
    text = "".join(nested(part, encodings) for part in (before, secret, after))
    assert LABEL in Redactor({"env:X": secret}).text(text)


@pytest.mark.no_cover
@given(secret=awkward, encodings=st.lists(st.sampled_from((in_json, in_ascii_json)), min_size=1, max_size=3))
def test_json_within_json_stays_json_at_each_level(secret: str, encodings: list[Encoding]) -> None:
    def within(text: str, encode: Encoding) -> str:
        return f'{{"error":"{encode(text)}"}}'

    text = json.dumps(["before", secret, "after"])
    for encode in encodings:
        text = within(text, encode)
    hidden: object = Redactor({"env:X": secret}).scrub(text.encode()).decode()
    for _ in encodings:
        assert isinstance(hidden, str)
        hidden = json.loads(hidden)["error"]
    assert isinstance(hidden, str)
    assert json.loads(hidden) == ["before", LABEL, "after"]


@given(
    secret=awkward,
    before=texts(max_size=5),
    after=texts(max_size=5),
    inside=st.sampled_from((str, in_json, in_ascii_json, in_url, in_path, in_form, in_html, in_python)),
    encode=st.sampled_from((base64.b64encode, base64.urlsafe_b64encode)),
    outside=st.lists(st.sampled_from(ENCODINGS), max_size=2),
)
def test_a_secret_is_found_in_base64_of_what_holds_it(
    secret: str,
    before: str,
    after: str,
    inside: Encoding,
    encode: Callable[[bytes], bytes],
    outside: list[Encoding],
) -> None:
    whole = encode("".join((before, inside(secret), after)).encode()).decode()
    assert LABEL in Redactor({"env:X": secret}).text(nested(whole, outside))


def test_what_an_authorization_header_says_is_hidden() -> None:
    header = f"Authorization: Basic {base64.b64encode(b'user:' + b'p4ssw0rd-of-mine').decode()}"
    hidden = Redactor({"env:X": "p4ssw0rd-of-mine"}).text(header)
    assert hidden.startswith("Authorization: Basic dXNlcj")
    assert LABEL in hidden


@pytest.mark.parametrize(
    "text",
    ["\\" * 4000 + "x", '\\"' * 2000 + "x", "%25" * 4000 + "x", "&amp;" * 4000 + "x", "\\\\" * 2000 + '"' * 2000],
)
def test_no_text_makes_the_search_take_for_ever(text: str) -> None:
    redactor = Redactor({"env:X": '\\"\\"%&\\"\\"%&\\"y', "env:Y": '\\\\\\\\\\""""%%%%&&&&'})
    began = time.process_time()
    assert redactor.text(text) == text
    assert time.process_time() - began < 2 * slowness()
