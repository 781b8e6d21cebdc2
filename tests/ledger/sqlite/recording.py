"""Each statement that the ledger sends to SQLite, as it was recorded, to the byte.

Statements are written once for all databases (`orchestrator/ledger/statements.py`), so that what is done for another
one could change what SQLite is sent, and with it a plan that was measured. Whoever means to change a statement records
it anew with `python -m tests.ledger.sqlite.recording`, and shows it with the change. The recording has

- what the tests of `tests/conformance` send, noted at the driver itself: whatever is composed as it is executed, too;
- what stands in a module of the ledger, though no such test executes it;
- the tables and indexes.
"""

import importlib
import pkgutil
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from sqlalchemy import CompoundSelect, Delete, Insert, Select, Update
from sqlalchemy.schema import CreateIndex, CreateTable

import orchestrator.ledger
from orchestrator.ledger.schema.job_tables import metadata
from orchestrator.ledger.sqlite.compiled_cache import Dialect

FILE: Final = Path(__file__).with_name("statements.txt")
"""The recording: a statement a line, sorted."""

ANEW: Final = "python -m tests.ledger.sqlite.recording"

_ROWS: Final = re.compile(r"(\(\?(?:, \?)*\))(?:, \1)+")
_UPKEEP: Final = ("PRAGMA", "BEGIN")  # with the numbers and the disk of a test


class Recorder:
    """Goes along with a run of pytest that records."""

    name = "recorder"

    def __init__(self) -> None:
        self.sent: set[str] = set()


def one_line(sql: str) -> str:
    """A statement as the recording has it: of rows that are alike the first one, and how many they are."""
    short = _ROWS.sub(lambda found: f"{found[1]} x {found[0].count(found[1])}", sql)
    return short.replace("\\", "\\\\").replace("\n", "\\n")


def unrecorded(statements: Iterable[str]) -> list[str]:
    """Those that the recording does not have."""
    recorded = set(FILE.read_text().splitlines())
    return sorted({one_line(sql) for sql in statements if not sql.startswith(_UPKEEP)} - recorded)


@contextmanager
def recorded(config: pytest.Config) -> Iterator[set[str]]:
    """What is put into this set meanwhile has to be in the recording, or comes into it where pytest records."""
    sent: set[str] = set()
    yield sent
    recorder = config.pluginmanager.get_plugin(Recorder.name)
    if recorder is not None:
        recorder.sent |= sent
        return
    new = unrecorded(sent)
    assert new == [], "\n".join((f"SQLite is sent something else than before; if that is meant: {ANEW}", *new))


def written() -> Iterator[str]:
    """The statements that stand in modules of the ledger, and what makes its tables."""
    dialect = Dialect()
    for table in metadata.sorted_tables:
        yield str(CreateTable(table).compile(dialect=dialect))
        yield from (str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes)
    for statement in statements_of_modules():
        yield str(statement.compile(dialect=dialect))


def statements_of_modules() -> Iterator[Select[object] | CompoundSelect[object] | Insert | Update | Delete]:
    """What is written down in modules of the ledger, but for what is composed as it is executed."""
    for module in pkgutil.walk_packages(orchestrator.ledger.__path__, f"{orchestrator.ledger.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, Select | CompoundSelect | Insert | Update | Delete):
                yield value


def main() -> int:
    """Records; returns pytest's exit code."""
    recorder = Recorder()

    class _Plugin:
        @staticmethod
        def pytest_configure(config: pytest.Config) -> None:
            config.pluginmanager.register(recorder, Recorder.name)

    options = (
        "-q",
        "-n",
        "0",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        "-p",
        "no:cacheprovider",
        "-k",
        "not postgresql",
    )
    code = pytest.main([*options, "tests/conformance"], plugins=[_Plugin()])
    if code == pytest.ExitCode.OK:
        sent = {one_line(sql) for sql in (*recorder.sent, *written()) if not sql.startswith(_UPKEEP)}
        FILE.write_text("".join(f"{sql}\n" for sql in sorted(sent)))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
