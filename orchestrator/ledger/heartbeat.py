"""What the process at work says of itself, for those who look at the ledger from outside."""

from collections.abc import Mapping
from typing import Final

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.sqlite.statements import upsert
from orchestrator.ledger.tables import vitals
from orchestrator.views import Collecting, JanitorSummary, StuckSummary

_JANITOR: Final = "janitor"
_STUCK: Final = "stuck"
_COLLECTING: Final = "collecting"

_WRITE: Final = upsert(vitals, lambda new: {name: new[name] for name in ("value", "at")})
_janitor: Final = msgspec.json.Decoder(JanitorSummary)
_stuck: Final = msgspec.json.Decoder(StuckSummary)
_collecting: Final = msgspec.json.Decoder(Collecting)


class Vitals(msgspec.Struct, frozen=True, kw_only=True):
    """What was said last; None before the first time."""

    janitor: JanitorSummary | None = None
    stuck: StuckSummary = StuckSummary()
    collecting: Collecting | None = None


async def vitals_write(
    connection: AsyncConnection, run: int, *, janitor: JanitorSummary, stuck: StuckSummary, now: int
) -> None:
    """Writes down how things stand for `run`."""
    said = {_JANITOR: msgspec.json.encode(janitor), _STUCK: msgspec.json.encode(stuck)}
    rows = [{"run_id": run, "name": name, "value": value, "at": now} for name, value in said.items()]
    await connection.execute(_WRITE, rows)


async def collecting_write(connection: AsyncConnection, collecting: Mapping[int, Collecting]) -> None:
    """Writes down how the results of some runs, at least one, are collected."""
    rows = [
        {"run_id": run, "name": _COLLECTING, "value": msgspec.json.encode(said), "at": said.at}
        for run, said in collecting.items()
    ]
    await connection.execute(_WRITE, rows)


async def vitals_of(connection: AsyncConnection, run: int) -> Vitals:
    """What was said last of `run`."""
    return (await vitals_by_run(connection, run=run)).get(run, Vitals())


async def vitals_by_run(connection: AsyncConnection, *, run: int | None = None) -> dict[int, Vitals]:
    """What was said last of every run of which anything was, or of `run` alone."""
    query = select(vitals.c.run_id, vitals.c.name, vitals.c.value)
    said: dict[int, dict[str, bytes]] = {}
    for of, name, value in await connection.execute(query if run is None else query.where(vitals.c.run_id == run)):
        said.setdefault(of, {})[name] = value
    return {of: _vitals(values) for of, values in said.items()}


def _vitals(said: Mapping[str, bytes]) -> Vitals:
    return Vitals(
        janitor=_janitor.decode(said[_JANITOR]) if _JANITOR in said else None,
        stuck=_stuck.decode(said[_STUCK]) if _STUCK in said else StuckSummary(),
        collecting=_collecting.decode(said[_COLLECTING]) if _COLLECTING in said else None,
    )
