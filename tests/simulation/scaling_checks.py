"""What must be true of workers that follow what a run needs, whatever its account does."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise

from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.core.planning.worker_steps import STEP_US
from orchestrator.units import SECOND_US
from tests.simulation.account import BoundsChange, SimulatedAccount
from tests.simulation.books import Books
from tests.simulation.facts import Facts

TOLERANCE_US = 5 * SECOND_US
"""A request is on its way for a while, and the account hears of two of them at other moments than they were sent."""


def _found_there(account: SimulatedAccount, until: BoundsChange) -> set[Bounds]:
    """What a process may have found by then, and puts back: what there was, and what others have made of it since."""
    return {account.before, *(each.bounds for each in account.changes if each.by_hand and each.at <= until.at)}


def workers_change_minutes_apart(facts: Facts, _books: Books) -> Iterator[str]:
    """Each change may restart the workers; only what is put back, or taken up again, need not wait."""
    account = facts.account
    steps: list[BoundsChange] = []
    for change in [] if account is None else account.changes:
        if change.by_hand or (account is not None and change.bounds in _found_there(account, change)):
            steps.clear()  # what follows begins anew
        else:
            steps.append(change)
        if len(steps) > 1 and steps[-1].at < steps[-2].at + STEP_US - TOLERANCE_US:
            apart_s = (steps[-1].at - steps[-2].at) / SECOND_US
            yield f"{steps[-2].bounds} became {steps[-1].bounds} after {apart_s:.0f} s"


def workers_stay_in_their_range(facts: Facts, _books: Books) -> Iterator[str]:
    """Whatever is forecast."""
    scaling, account = facts.plan.scaling, facts.account
    if scaling is None or account is None:
        return
    for change in account.changes:
        is_ours = not change.by_hand and change.bounds not in _found_there(account, change)
        if is_ours and not scaling.range.least <= change.bounds.most <= scaling.range.most:
            yield f"{change.bounds} is not within {scaling.range}"


def bounds_are_put_back(facts: Facts, _books: Books) -> Iterator[str]:
    """Once all is over the endpoint has what it had, unless somebody else has changed that, or the ledger knows."""
    account = facts.account
    if account is None or not facts.finished or account.now == account.before:
        return
    with closing(sqlite3.connect(facts.ledger)) as db:
        (lent,) = db.execute("SELECT count(*) FROM loans").fetchone()
    if not lent and not any(change.by_hand for change in account.changes):
        yield f"the endpoint has {account.now} at the end, and had {account.before}"


def who_changes_them_by_hand_has_the_last_word(facts: Facts, _books: Books) -> Iterator[str]:
    """What somebody else has made of them is not changed after the next look, but by who begins anew."""
    account = facts.account
    changes = [] if account is None else account.changes
    for before, after in pairwise(changes):
        if before.by_hand and not after.by_hand and after.at > before.at + TOLERANCE_US:
            if any(began_at > before.at for began_at, _ in facts.lives):
                return
            yield f"somebody made it {before.bounds}, and it became {after.bounds}"


OF_SCALING = (
    workers_change_minutes_apart,
    workers_stay_in_their_range,
    bounds_are_put_back,
    who_changes_them_by_hand_has_the_last_word,
)
