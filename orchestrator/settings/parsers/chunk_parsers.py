"""How it is written which rows travel together."""

import re
from typing import Final

from orchestrator.core.chunks.chunk_form import checked_template
from orchestrator.core.chunks.chunk_terms import ROWS_MAX, ChunkTerms
from orchestrator.core.text.figures import size_text
from orchestrator.settings.value_types import Kind, ValueType, parsed
from orchestrator.units import KIB, MIB

SIZE_MAX: Final = 9 * MIB
_SIZE: Final = re.compile(r"\s*([0-9]{1,12})\s*(B|KiB|MiB)\s*", re.IGNORECASE)
_UNITS: Final = {"b": 1, "kib": KIB, "mib": MIB}


def parse_chunk(text: str) -> ChunkTerms:
    """`16`: so many rows; `256KiB`: so much of inputs."""
    if (size := _SIZE.fullmatch(text)) is not None:
        found = int(size[1]) * _UNITS[size[2].lower()]
        if not KIB <= found <= SIZE_MAX:
            raise ValueError(f"must be 1KiB to {size_text(SIZE_MAX).replace(' ', '')}, since a request may have 10 MB")
        return ChunkTerms(bytes=found)
    if not text.strip().isdecimal() or not 1 <= int(text.strip()[:12]) <= ROWS_MAX:
        raise ValueError(f"must be 1 to {ROWS_MAX:,} rows, as in 16, or a size, as in 256KiB")
    return ChunkTerms(rows=int(text))


def format_chunk(terms: ChunkTerms) -> str:
    """What `parse_chunk` makes the same terms of."""
    if terms.bytes is None:
        return str(terms.rows)
    unit = next(name for name in ("MiB", "KiB", "B") if terms.bytes % _UNITS[name.lower()] == 0)
    return f"{terms.bytes // _UNITS[unit.lower()]}{unit}"


def chunk_terms() -> ValueType[ChunkTerms]:
    """How large chunks are."""
    return parsed("ROWS|SIZE", parse_chunk, format_chunk, kind=Kind.WHOLE_OR_TEXT)


def chunk_template() -> ValueType[str]:
    """What the input of a chunk is."""
    return parsed("JSON", checked_template)
