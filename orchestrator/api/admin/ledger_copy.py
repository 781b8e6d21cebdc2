"""A ledger goes to another place: what it holds, and what lies beside it on this machine."""

from collections.abc import Mapping
from functools import partial

import msgspec
from anyio import to_thread

from orchestrator.api.admin.companion_copies import COPIED, companions_copy
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.ledger.copying.ledger_copy import Tell, copy_ledger
from orchestrator.ledger.sites.sites import site_of
from orchestrator.settings.addresses.companions import companion_of
from orchestrator.settings.addresses.ledger_address import LedgerAddress


class LedgerCopied(msgspec.Struct, frozen=True, kw_only=True):
    """What came of copying a ledger."""

    ledger: str
    copied_to: str
    rows: Mapping[str, int]
    """By table."""

    beside: tuple[str, ...]
    """The files and folders of this machine that belong to the copy, and were copied with it."""

    was_there: bool
    """Whether it had been copied there already."""


async def ledger_copy(
    source: LedgerAddress,
    target: LedgerAddress,
    tell: Tell = lambda _done, _total: None,
    dependencies: Dependencies | None = None,
) -> LedgerCopied:
    """Copies the ledger at `source`, with what lies beside it, to `target`, where it goes on; `source` is retired.

    `tell` is told of how many rows of all it is done. Raises as `copy_ledger` and `companions_copy` do.
    """
    given = dependencies or Dependencies()
    source, target = source.absolute(), target.absolute()
    if source == target:
        raise UsageError(f"{source}: a ledger is copied to another place; name one as the second")
    of = site_of(source, connect=given.connect_to(source))
    to = site_of(target, connect=given.connect_to(target))
    beside = partial(to_thread.run_sync, companions_copy, source, target)
    try:
        copied = await copy_ledger(of, to, clock=given.clock, tell=tell, copy_beside=beside)
    finally:
        await of.aclose()
        await to.aclose()
    return LedgerCopied(
        ledger=str(source),
        copied_to=str(target),
        rows=copied.rows,
        beside=tuple(str(path) for companion in COPIED if (path := companion_of(target, companion)).exists()),
        was_there=copied.was_there,
    )
