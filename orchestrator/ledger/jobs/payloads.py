"""Payloads: what is sent for a job, and which variables leave with it."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from sqlalchemy import bindparam, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.ledger.schema.job_tables import jobs, payloads, secret_names
from orchestrator.ledger.schema.row_codec import unpack
from orchestrator.ledger.statements import IN_BATCH, NUMBERS, batch_of, insert_new


class Payload(msgspec.Struct, frozen=True):
    """What is sent for a job: JSON texts as they came from the input."""

    input: bytes
    policy: bytes | None
    s3_config: bytes | None


_SIZED = (
    select(
        payloads.c.job_id,
        NUMBERS.c.key,
        func.sum(func.length(payloads.c.input)).over(order_by=NUMBERS.c.key).label("bytes"),
    )
    .select_from(NUMBERS.join(payloads, payloads.c.job_id == NUMBERS.c.value))
    .subquery()
)
_PAYLOADS = (
    select(payloads.c.job_id, payloads.c.input, payloads.c.packed, payloads.c.policy, payloads.c.s3_config)
    .select_from(_SIZED.join(payloads, payloads.c.job_id == _SIZED.c.job_id))
    .where((_SIZED.c.key == 0) | (_SIZED.c.bytes <= bindparam("bytes_max")))
    .order_by(_SIZED.c.key)
)


async def payloads_of(
    connection: AsyncConnection, ids: Sequence[int], bytes_max: int, *, at_least_one: bool
) -> dict[int, Payload]:
    """The payloads of the first jobs in `ids` whose inputs come to no more than `bytes_max`; `at_least_one` if asked.

    However small they are when they are packed: what would be too many is not even unpacked.
    """
    parameters = {**batch_of(ids), "bytes_max": bytes_max}
    found: dict[int, Payload] = {}
    room = bytes_max
    for row in await connection.execute(_PAYLOADS, parameters):
        payload = Payload(unpack(row[1], row[2]), row[3], row[4])
        room -= len(payload.input)
        if room < 0 and (found or not at_least_one):
            break
        found[row[0]] = payload
    return found


_CUSTOM_IDS: Final = select(jobs.c.id, jobs.c.custom_id).where(jobs.c.id.in_(IN_BATCH))


async def custom_ids_of(connection: AsyncConnection, ids: Sequence[int]) -> dict[int, str]:
    """What the input calls these jobs."""
    return {row[0]: row[1] for row in await connection.execute(_CUSTOM_IDS, batch_of(ids))}


_REFERENCE: Final = re.compile(rb'"env:([A-Za-z_][A-Za-z0-9_]*)"')
_NAMES = insert_new(secret_names)


def references_of(found: Iterable[Payload]) -> frozenset[str]:
    """The environment variables whose values leave with these payloads."""
    configs = [payload.s3_config for payload in found if payload.s3_config is not None]
    return frozenset(name.decode() for config in configs for name in _REFERENCE.findall(config))


async def secret_names_add(connection: AsyncConnection, names: Iterable[str]) -> None:
    """Remembers the variables (never their values), so that whoever collects knows what may be echoed."""
    await connection.execute(_NAMES, [{"name": name} for name in sorted(names)])


async def secret_names_all(connection: AsyncConnection) -> frozenset[str]:
    """The variables whose values have left with a submission."""
    return frozenset((await connection.execute(select(secret_names.c.name))).scalars())
