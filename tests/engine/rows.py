"""Jobs for tests: rows as an input file would give them, and a ledger file that is migrated already."""

import functools
import hashlib
import sqlite3
import tempfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

from orchestrator.core.service.row_variables import NO_KEYS, OwnKeys, RowVariables
from orchestrator.formats.input.rows import Row
from orchestrator.ledger import Ledger, migrations
from orchestrator.ledger.runs.input_rows import packed_rows
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.run_settings import RunSettings


def rows(number: int, *, policy: bytes | None = None, s3_config: bytes | None = None) -> list[Row]:
    """`number` rows with the inputs `{"n":1}`, `{"n":2}`, …"""
    return [
        Row(
            line=n,
            custom_id=f"job-{n}",
            derived=False,
            input=b'{"n":%d}' % n,
            digest=hashlib.sha256(b"%d" % n).digest(),
            policy=policy,
            s3_config=s3_config,
        )
        for n in range(1, number + 1)
    ]


async def run_of_rows(
    ledger: Ledger, name: str, *, service_url: str, endpoint: str, settings: RunSettings, jobs: int
) -> Run:
    """A run of that name whose so many rows are taken in."""
    run = await ledger.runs.create(
        name=name, service_url=service_url, endpoint=endpoint, source="/x", settings=settings
    )
    intake = await ledger.runs.intakes.start(run)
    await ledger.runs.intakes.add(intake, packed_rows(rows(jobs)))
    await ledger.runs.intakes.accept(intake)
    [found] = await ledger.runs.all([run.id])
    return found


@functools.cache
def _migrated() -> bytes:
    """An empty ledger, as bytes: a migration takes longer than most tests."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger.db"
        migrations.migrate(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA journal_mode = WAL")  # as each that was in use: the change costs a sync
        return path.read_bytes()


def empty_ledger(path: Path) -> Path:
    """The ledger at `path`, which is a migrated one without runs if there was none."""
    if not path.exists():
        path.write_bytes(_migrated())
    return path


def variables(environ: Mapping[str, str], keys: OwnKeys = NO_KEYS) -> Callable[[RunSettings], RowVariables]:
    """What rows may have of `environ`, by the settings of their run."""
    return lambda settings: RowVariables(environ, settings.allow_env, keys)
