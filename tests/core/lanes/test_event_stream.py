"""Streams of events, gathered: what is a piece, and whether the last one tells of a failure."""

import pytest

from orchestrator.core.lanes.event_stream import ends_in_error, pieces_of


@pytest.mark.parametrize(
    ("body", "pieces"),
    [
        (b"", []),
        (b"data: 1\n\ndata:2\n\n", [b"1", b"2"]),
        (b'event: delta\nid: 7\ndata: { "a" : 1 }\nretry: 5\n\n: ping\n\n', [b'{"a":1}']),
        (b"data: a\ndata:  b\n\n", [b'"a\\n b"']),
        (b"data: 1\r\n\r\ndata: 2\r\rdata: [DONE]\n\n", [b"1", b"2"]),
        (b"data: 12345678901234567890\n\n", [b"12345678901234567890"]),
        (b"data\n\n", [b'""']),
        (b"data: 1", [b"1"]),
        (b"database: 1\n\nevent: end\n\n", []),
        ("data: h\u00e4\u2028\n\n".encode(), ['"h\u00e4\u2028"'.encode()]),
    ],
)
def test_the_pieces_of_a_stream_are_the_data_of_its_events(body: bytes, pieces: list[bytes]) -> None:
    assert pieces_of(body) == pieces


def test_what_is_no_text_is_no_stream() -> None:
    with pytest.raises(ValueError, match="decode"):
        pieces_of(b"data: \xff\n\n")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([], False),
        ([b'{"error":{"message":"x"}}'], True),
        ([b'{"error":"x"}', b'{"choices":[]}'], False),
        ([b'{"choices":[],"error":"x"}'], False),
        ([b'{"error":null}'], False),
        ([b"[1]"], False),
    ],
)
def test_only_the_last_piece_tells_of_a_failure(pieces: list[bytes], expected: bool) -> None:
    assert ends_in_error(pieces) is expected
