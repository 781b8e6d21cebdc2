"""Which pods work for runs, from the intent to have each until nothing of it is paid any more."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from sqlalchemy import bindparam, func, insert, select, update

from orchestrator.core.pods.pod_lease import LeaseEnd, LeaseState, PodLease, lease_name
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.ledger.schema.job_tables import runs
from orchestrator.ledger.schema.pod_tables import OPEN_LEASE, pod_leases
from orchestrator.ledger.transactions.repository import Repository, alone, shared
from orchestrator.ledger.transactions.transaction import Transaction

_template: Final = msgspec.json.Decoder(PodTemplate)

_KEPT: Final = ("state", "pod", "began_at", "ready_at", "ending_at", "ended_at", "per_hour", "detail")
_WRITE: Final = (
    update(pod_leases)
    .where(pod_leases.c.id == bindparam("of"), OPEN_LEASE)
    .values({"why": bindparam("end")} | {name: bindparam(f"new_{name}") for name in _KEPT})
)


class LeaseRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is to work for a run."""

    run: int
    run_name: str
    run_created_at: int
    service_url: str
    rest_url: str
    template: PodTemplate
    rests: PodLease | None = None
    """The lease before of the pod that is to be started again; None: one is to be made."""


class PodLeases(Repository):
    """Those of the runs of a ledger."""

    @alone
    async def want(self, transaction: Transaction, wishes: Sequence[LeaseRequest]) -> list[PodLease]:
        """Writes down that these are wanted, before anybody is asked for them, but for those of a pod that somebody has
        a lease of, and of runs that are none any more, and returns their leases. Raises `StorageError`.
        """
        found, now = [], self._access.now()
        for wish in wishes:
            if not await _is_run(transaction, wish.run):
                continue
            if wish.rests is not None and await _has_lease(transaction, wish.rest_url, wish.rests.pod):
                continue
            number = 1 + await _count(transaction, wish.run)
            rests = wish.rests
            name = lease_name(wish.run_name, wish.run_created_at, number) if rests is None else rests.name
            values = {
                "run": wish.run,
                "name": name,
                "service_url": wish.service_url,
                "rest_url": wish.rest_url,
                "is_new": rests is None,
                "state": LeaseState.WANTED.value,
                "pod": None if rests is None else rests.pod,
                "wanted_at": now,
                "per_hour": 0.0,
                "detail": "",
            }
            row = {**values, "template": msgspec.json.encode(wish.template)}
            written = await transaction.connection.execute(insert(pod_leases).values(row))
            key = written.inserted_primary_key
            assert key is not None
            found.append(msgspec.convert({**values, "id": key[0], "template": wish.template}, PodLease))
        return found

    @shared
    async def write(self, transaction: Transaction, lease: PodLease) -> bool:
        """Writes down how it stands. False where it had ended before: then it stays so. Raises `StorageError`."""
        kept = {f"new_{name}": getattr(lease, name) for name in _KEPT}
        end = None if lease.end is None else lease.end.value
        written = await transaction.connection.execute(
            _WRITE, {**kept, "new_state": lease.state.value, "of": lease.id, "end": end}
        )
        return bool(written.rowcount)

    async def all(self, *, run: int | None = None, open_only: bool = False) -> list[PodLease]:
        """Those of the ledger, or of a run, oldest first."""
        query = select(pod_leases).order_by(pod_leases.c.id)
        if run is not None:
            query = query.where(pod_leases.c.run == run)
        if open_only:
            query = query.where(OPEN_LEASE)
        return [_lease(row) for row in await self._access.rows(query)]


async def _is_run(transaction: Transaction, run: int) -> bool:
    query = select(runs.c.id).where(runs.c.id == run, runs.c.intake_accepted > 0)
    return (await transaction.connection.execute(query)).first() is not None


async def _count(transaction: Transaction, run: int) -> int:
    query = select(func.count()).select_from(pod_leases).where(pod_leases.c.run == run)
    return int((await transaction.connection.execute(query)).scalar_one())


async def _has_lease(transaction: Transaction, rest_url: str, pod: str | None) -> bool:
    query = (
        select(pod_leases.c.id).where(pod_leases.c.rest_url == rest_url, pod_leases.c.pod == pod, OPEN_LEASE).limit(1)
    )
    return (await transaction.connection.execute(query)).first() is not None


def _lease(row: Any) -> PodLease:
    return PodLease(
        id=row.id,
        run=row.run,
        name=row.name,
        service_url=row.service_url,
        rest_url=row.rest_url,
        template=_template.decode(row.template),
        is_new=bool(row.is_new),
        state=LeaseState(row.state),
        pod=row.pod,
        wanted_at=row.wanted_at,
        began_at=row.began_at,
        ready_at=row.ready_at,
        ending_at=row.ending_at,
        ended_at=row.ended_at,
        per_hour=row.per_hour,
        end=None if row.why is None else LeaseEnd(row.why),
        detail=row.detail,
    )
