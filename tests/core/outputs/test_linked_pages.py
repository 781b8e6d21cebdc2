"""Which answers are pages of HTML in the place of a file, and which files are to be such."""

import pytest

from orchestrator.core.outputs.linked_pages import is_called_page, is_page

OCTETS = "application/octet-stream"
SVG = b"<?xml version='1.0'?><svg/>"


@pytest.mark.parametrize(
    ("head", "content_type", "expected"),
    [
        (b"<!DOCTYPE html><title>Sign in</title>", "text/html; charset=utf-8", True),
        (b"\xef\xbb\xbf\r\n <!doctype  HTML>", OCTETS, True),
        (b"<html lang='en'>", "", True),
        (b"<head><meta http-equiv='refresh'>", "Text/HTML", True),
        (b"<?xml version='1.0'?><html/>", "application/xhtml+xml", True),
        (b"<head>", OCTETS, False),
        (SVG, "image/svg+xml", False),
        (b"<html5lib>", OCTETS, False),
        (b"\x89PNG\r\n", "text/html", False),  # a server that knows no better
        (b"", "text/html", False),
    ],
)
def test_a_page_is_told_by_how_it_begins_and_by_what_its_server_says(
    head: bytes, content_type: str, expected: bool
) -> None:
    assert is_page(head, content_type) is expected


def test_a_file_is_to_be_a_page_where_it_is_called_one() -> None:
    assert [is_called_page(name) for name in ("a.html", "A.HTM", "b.xhtml")] == [True] * 3
    assert [is_called_page(name) for name in ("a.png", "html", "a.html.png")] == [False] * 3
