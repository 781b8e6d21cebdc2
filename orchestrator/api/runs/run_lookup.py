"""Which run of a ledger somebody means: by its name, by the beginning of it, or, without a name, the only one."""

from collections.abc import Sequence
from typing import Final

from orchestrator.core.text.name_match import meant_by, nearest
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.addresses.ledger_address import LedgerAddress

NAMES_SHOWN_MAX: Final = 10
"""More names than that are counted."""


async def run_named(ledger: Ledger, name: str | None, *, not_accepted: bool = False) -> Run:
    """The run that `name` means, or the only one there is.

    The name of a flow means the run of its last stage.
    With `not_accepted` also one whose input is being read for the first time, or was refused. Raises `UsageError` where
    there is none, or more than one.
    """
    if name is not None and (flow := await ledger.flows.named(name)) is not None:
        stages = await ledger.flows.stages([flow.id])
        if runs := await ledger.runs.all([stage.run for stage in stages if stage.run is not None]):
            return runs[-1]
    known = await ledger.runs.names(not_accepted=not_accepted)
    found = list(meant_by(name, known)) if name is not None else known
    if len(found) == 1 and (run := await ledger.runs.named(found[0])) is not None:
        return run
    if name is None:
        raise UsageError(f"{ledger.address}: name the run that you mean; there is: {_listed(known)}")
    raise (
        ambiguous_name("run", name, ledger.address, found)
        if found
        else unknown_name("run", name, ledger.address, known)
    )


async def served_by(ledger: Ledger, run: Run) -> str | None:
    """Who works at the endpoint of `run`, or, while nobody does, on the ledger, as text for people; None if nobody."""
    return await ledger.holder(run.endpoint_id) or await ledger.holder()


def unknown_name(what: str, name: str, ledger: LedgerAddress, known: Sequence[str]) -> UsageError:
    """There is no such thing of that name; says which there are, and which one is probably meant."""
    near = nearest(name, known)
    meant = "" if near is None else f"; did you mean {near!r}?"
    return UsageError(f"{ledger}: there is no {what} called {name!r} here{meant or ';'} there is: {_listed(known)}")


def ambiguous_name(what: str, name: str, ledger: LedgerAddress, found: Sequence[str]) -> UsageError:
    """More than one begins like that."""
    return UsageError(f"{ledger}: {name!r} can be any of {len(found):,} {what}s: {_listed(found)}")


def _listed(names: Sequence[str]) -> str:
    """The names, of many the latest."""
    shown = ", ".join(names[-NAMES_SHOWN_MAX:]) or "none"
    more = len(names) - NAMES_SHOWN_MAX
    return f"{shown} and {more:,} older ones" if more > 0 else shown
