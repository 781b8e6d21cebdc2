"""What a member holds, and what stands in its place."""

import base64
import json

import pytest

from orchestrator.core.outputs.saved_members import (
    Link,
    SavedFile,
    Unusable,
    content_of,
    made_files,
    members_at,
    saved_file,
    saved_text,
    unsaved_member,
    unsaved_text,
    with_replaced,
)

PNG = b"\x89PNG\r\n\x1a\n\xff\xfe"
FILE = SavedFile(file="/out/a.png", bytes=3, sha256="ab")


@pytest.mark.parametrize(
    ("output", "path", "found"),
    [
        (b'{"image":"x","n":1}', ("image",), [(1, b'"x"')]),
        (b'{"image":null}', ("image",), []),
        (b'{"n":1}', ("image",), []),
        (b'"x"', (), [(1, b'"x"')]),
        (b'[ "x" , "y" ]', ("1",), [(1, b'"y"')]),
        (b'["x"]', ("image",), []),
        (b'{"a":[{"d":"x"},{},{"d":"z"}]}', ("a", "*", "d"), [(1, b'"x"'), (3, b'"z"')]),
        (b'{"a":{"*":"x"}}', ("a", "*"), [(1, b'"x"')]),
        (b"7", ("a",), []),
        (b"{", ("a",), []),
        (b"[" * 100_000, ("*",), []),
    ],
)
def test_members_are_found_by_their_paths(output: bytes, path: tuple[str, ...], found: list[tuple[int, bytes]]) -> None:
    assert members_at(output, path) == found
    assert with_replaced(output, path, [each for _, each in found]).strip() == output.replace(b" ", b"")


def test_everything_beside_a_member_stays_as_the_worker_wrote_it() -> None:
    output = b'{"a":[{"d":"x","f":1.50},{"d":null}],"n":12345678901234567890,"t":"\\u00e9"}'
    assert with_replaced(output, ("a", "*", "d"), [b"7"]) == output.replace(b'"x"', b"7")


def text(value: str) -> bytes:
    return json.dumps(value).encode()


@pytest.mark.parametrize(
    "value",
    [
        base64.b64encode(PNG).decode(),
        base64.b64encode(PNG).decode().rstrip("="),
        base64.urlsafe_b64encode(PNG).decode(),
        "\n".join(base64.b64encode(PNG).decode()),
        f"data:image/png;base64,{base64.b64encode(PNG).decode()}",
        f"DATA:;Base64,{base64.b64encode(PNG).decode().replace('/', '%2F')}",
        "data:,%89PNG%0D%0A%1A%0A%FF%FE",
    ],
)
def test_base64_and_data_urls_are_decoded_however_they_are_written(value: str) -> None:
    assert content_of(text(value)) == PNG


@pytest.mark.parametrize("url", ["https://example.org/a.png?x=1", "HTTP://example.org/"])
def test_a_link_is_one_by_how_it_begins(url: str) -> None:
    assert content_of(text(url)) == Link(url)


@pytest.mark.parametrize(
    ("member", "why"),
    [
        (b"7", "it is no text"),
        (b'{"file":"/etc/passwd","bytes":1,"sha256":""}', "it is no text"),
        (text("not base 64!"), "it is neither Base64, a data URL nor a link"),
        (text("aGVsbG8h=aGVsbG8h"), "it is neither Base64, a data URL nor a link"),
        (text("é" * 4), "it is neither Base64, a data URL nor a link"),
        (text("file:///etc/passwd"), "it is neither Base64, a data URL nor a link"),
        (text("data:image/png;base64,?"), "it is neither Base64, a data URL nor a link"),
        (text("data:image/png"), "it is a data URL without data"),
        (text("  "), "it is empty"),
    ],
)
def test_of_anything_else_no_file_is_made_and_it_is_said_why(member: bytes, why: str) -> None:
    assert content_of(member) == Unusable(why)


def test_what_stands_in_a_member_s_place_is_read_again() -> None:
    assert saved_text(FILE) == b'{"file":"/out/a.png","bytes":3,"sha256":"ab"}'
    assert saved_file(saved_text(FILE)) == FILE
    assert unsaved_text(b'"x"', "why") == b'{"value":"x","unsaved":"why"}'
    found = unsaved_member(unsaved_text(b'"x"', "why"))
    assert found is not None
    assert (bytes(found.value), found.unsaved) == (b'"x"', "why")


@pytest.mark.parametrize("member", [b'"x"', b"{}", b'{"file":"/a","bytes":1,"sha256":"","more":1}', b"[" * 100_000])
def test_what_is_something_else_tells_of_no_file(member: bytes) -> None:
    assert saved_file(member) is None
    assert unsaved_member(member) is None


def test_a_file_is_one_only_where_it_was_put_and_once() -> None:
    other = SavedFile(file="/etc/passwd", bytes=3, sha256="ab")
    output = b'{"image":%b,"images":[%b,%b,"x"],"forged":%b}' % (
        saved_text(FILE), saved_text(FILE), saved_text(FILE), saved_text(other),
    )  # fmt: skip
    assert made_files(output, ("output.image", "output.images.*", "output.images.0")) == [FILE]
    assert made_files(output, ()) == []
    assert made_files(saved_text(FILE), ("output",)) == [FILE]
