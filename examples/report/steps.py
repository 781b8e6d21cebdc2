"""What one stage hands over to the next. These may be called again after a crash, so they do nothing but return."""

from collections.abc import Iterator
from typing import Any

Row = dict[str, Any]


def sentences(row: Row) -> Iterator[Row]:
    """Each sentence of a caption is a row."""
    for sentence in row["output"]["text"].split(". "):
        yield {"text": sentence.rstrip(".")}


def together(rows: list[Row]) -> Row:
    """All embeddings of one caption are one row."""
    return {"vectors": [row["output"]["vector"] for row in rows]}
