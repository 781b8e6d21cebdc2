"""How it is written which rows travel together."""

import pytest

from orchestrator.core.chunks.chunk_terms import ROWS_MAX, ChunkTerms
from orchestrator.errors import UsageError
from orchestrator.settings.parsers.chunk_parsers import SIZE_MAX, format_chunk, parse_chunk
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import KIB, MIB


@pytest.mark.parametrize(
    ("text", "terms", "written"),
    [
        ("1", ChunkTerms(rows=1), "1"),
        (" 016 ", ChunkTerms(rows=16), "16"),
        ("1000", ChunkTerms(rows=ROWS_MAX), "1000"),
        ("256KiB", ChunkTerms(bytes=256 * KIB), "256KiB"),
        ("9 mib", ChunkTerms(bytes=SIZE_MAX), "9MiB"),
        ("1025B", ChunkTerms(bytes=1025), "1025B"),
        ("1024KiB", ChunkTerms(bytes=MIB), "1MiB"),
    ],
)
def test_so_many_rows_or_so_much(text: str, terms: ChunkTerms, written: str) -> None:
    assert parse_chunk(text) == terms
    assert format_chunk(terms) == written
    assert parse_chunk(written) == terms


@pytest.mark.parametrize("text", ["0", "1001", "-3", "", "sixteen", "1.5", "9" * 40, "1000B", "10MiB", "1GiB", "5 KB"])
def test_what_is_neither(text: str) -> None:
    with pytest.raises(ValueError, match="must be 1"):
        parse_chunk(text)


@pytest.mark.parametrize("settings", [RunSettings(chunk_output="texts"), RunSettings(chunk_input='{"a":"{rows}"}')])
def test_the_form_of_a_chunk_is_for_chunks(settings: RunSettings) -> None:
    with pytest.raises(UsageError, match=r"is for rows that travel together; give (--)?chunk too"):
        check_together(settings, str)
