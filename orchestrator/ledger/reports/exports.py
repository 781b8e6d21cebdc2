"""The files that runs were exported to, so that whoever verifies one knows whose it is, and what stands in it."""

from typing import Final

import msgspec
from sqlalchemy import bindparam, select

from orchestrator.ledger.schema.job_tables import exports
from orchestrator.ledger.statements import upsert
from orchestrator.ledger.transactions.repository import Repository
from orchestrator.settings.words_and_defaults import OutputFormat, ResultOrder


class Writing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a file was written, as far as its rows do not show it."""

    where: str = ""
    """The filter by which its rows were chosen."""

    at: int = 0
    """When that was: the filter may speak of times before it."""

    format: OutputFormat | None = None
    order: ResultOrder | None = None


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was written last for this run, as far as the ledger knows."""

    run: int
    writing: Writing
    exported_at: int


_told: Final = msgspec.json.Decoder(Writing)
_NOTE: Final = upsert(exports, lambda new: {"run_id": new.run_id, "told": new.told, "exported_at": new.exported_at})
_OF: Final = select(exports.c.run_id, exports.c.told, exports.c.exported_at).where(exports.c.path == bindparam("path"))


def _encoded(told: Writing, *, at: int) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(told, at=at))


class Exports(Repository):
    """Of the runs of a ledger, by the full paths of their results files."""

    async def note(self, path: str, run: int, told: Writing) -> None:
        """The results of `run` were written there. Raises `StorageError`."""
        now = self._access.now()
        row = {"path": path, "run_id": run, "told": _encoded(told, at=now), "exported_at": now}
        await self._access.shared.execute(_NOTE, row)

    async def of(self, path: str) -> Export | None:
        """What was written there last; None where nothing was, as far as is known."""
        rows = await self._access.rows(_OF, {"path": path})
        return Export(run=rows[0][0], writing=_told.decode(rows[0][1]), exported_at=rows[0][2]) if rows else None
