"""What a service repeats of a secret is not kept, and everything else is."""

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.core.text.redaction import HIDDEN, SECRET_CHARS_MIN, Redactor
from tests.texts import texts

SECRET = 'a/b+c"d\\e==ä'

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(
    "answer",
    [
        SECRET,
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        json.dumps({"error": json.dumps({"key": SECRET})}),
        json.dumps({"error": json.dumps({"key": SECRET}, ensure_ascii=False)}, ensure_ascii=False),
        json.dumps({"key": SECRET}).replace("/", "\\/"),
        f"https://store/bucket?secret={quote(SECRET, safe='')}",
    ],
)
def test_a_secret_is_found_in_every_spelling(answer: str) -> None:
    hidden = Redactor({"env:S3_SECRET": SECRET}).scrub(answer.encode())
    assert hidden == answer.encode()[: hidden.index(b"[")] + b"[env:S3_SECRET]" + hidden[hidden.index(b"]") + 1 :]
    assert hidden.count(b"[env:S3_SECRET]") == 1


@pytest.mark.parametrize("value", ["", "a", "1", "test", "1234567"])
def test_what_is_too_short_to_be_a_secret_is_not_looked_for(value: str) -> None:
    assert len(value) < SECRET_CHARS_MIN
    assert Redactor({"env:X": value}).scrub(b'{"a":"test 1234567"}') == b'{"a":"test 1234567"}'


def test_a_secret_inside_another_one_does_not_save_the_rest_of_that() -> None:
    redactor = Redactor({"env:PART": "abcdefgh", "env:WHOLE": "abcdefgh-and-more"})
    assert redactor.scrub(b"abcdefgh-and-more abcdefgh") == b"[env:WHOLE] [env:PART]"


def test_a_secret_of_digits_leaves_numbers_json() -> None:
    redactor = Redactor({"env:PIN": "1234567890"})
    text = b'{"a":1234567890,"b":-91234567890.5e3,"c":"x1234567890\\"","d":123456789,"e":[1234567890]}'
    assert json.loads(redactor.scrub(text)) == {
        "a": "[env:PIN]",
        "b": "[env:PIN]",
        "c": 'x[env:PIN]"',
        "d": 123456789,
        "e": ["[env:PIN]"],
    }
    assert redactor.scrub(b'cut off: {"key":"1234567890') == b'cut off: {"key":""[env:PIN]"'


@given(
    value=json_values,
    secret=texts(min_size=SECRET_CHARS_MIN, max_size=12) | st.integers(10**8, 10**12).map(str),
    ascii_only=st.booleans(),
)
def test_json_stays_json_and_holds_the_secret_no_more(value: object, secret: str, ascii_only: bool) -> None:
    text = json.dumps({"before": value, "echo": f"<{secret}>", "after": [secret, value]}, ensure_ascii=ascii_only)
    try:
        raw = text.encode()
    except UnicodeEncodeError:  # a lone surrogate is no JSON text that could come in
        return
    hidden = Redactor({"env:X": secret}).scrub(raw)
    json.loads(hidden)
    assert secret.encode("utf-8", "surrogatepass") not in hidden


def test_a_secret_of_several_lines_is_hidden_in_each_of_them_and_folded() -> None:
    secret = 'p+ss/w "rd"\nline two'
    inside = json.dumps(secret)[1:-1]
    forms = (
        secret,
        quote(secret),
        quote_plus(secret),
        inside,
        json.dumps(inside)[1:-1],
        "line two",
        'p+ss/w "rd" line two',
    )
    redactor = Redactor({}, sent=[secret])
    assert redactor.text("|".join(forms)) == "|".join(["[hidden]"] * len(forms))
    assert redactor.scrub("|".join(forms).encode()) == b"|".join([b"[hidden]"] * len(forms))


@given(texts(min_size=4), texts(), texts())
def test_no_secret_survives_whatever_it_is_and_wherever_it_stands(secret: str, before: str, after: str) -> None:
    whole = before + secret + after
    redactor = Redactor({}, sent=[secret])
    for text in (redactor.text(whole), redactor.scrub(whole.encode("utf-8", "replace")).decode()):
        assert secret not in text.replace("[hidden]", "") or secret in before + after


def test_what_stood_in_the_request_may_be_shorter() -> None:
    assert Redactor({HIDDEN: "key"}, sent=["abc"]).text("the key abc") == "the key abc"
    assert Redactor({HIDDEN: "long-key"}, sent=["word"]).text("a long-key and a word") == "a [hidden] and a [hidden]"


@given(value=json_values)
def test_without_a_secret_in_it_a_text_stays_as_it_is(value: object) -> None:
    text = json.dumps(value).encode()
    assert Redactor({"env:X": "no-such-secret-anywhere"}).scrub(text) is text
    assert Redactor({}).scrub(text) is text
