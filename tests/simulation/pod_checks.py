"""What must be true of a run on pods, whatever its account and its pods do, and whenever processes are killed."""

from collections.abc import Iterator

from orchestrator.ledger.commands.command_types import Action
from orchestrator.units import SECOND_US
from tests.simulation.books import Books
from tests.simulation.clock import EPOCH_AT, STILL
from tests.simulation.facts import Facts
from tests.simulation.plan import FailureClass

ENDS_US = 60 * SECOND_US
"""Pods that nobody needs any more are gone within so long, where the account answers."""


def no_pod_is_left_that_is_paid(facts: Facts, _books: Books) -> Iterator[str]:
    """Once all is over, and whoever is left to tidy up has done so; those that rest are there where that is wanted."""
    pods, plan = facts.pods, facts.plan.pods
    if pods is None or plan is None or not facts.finished:
        return
    if pods.paid:
        yield f"paid at the end: {', '.join(pods.paid)}"
    elif pods.left and not plan.stops:
        yield f"left at the end: {', '.join(pods.left)}"
    if facts.pods_left:
        yield f"paid when a process had come to its end, and nothing was wrong: {', '.join(facts.pods_left)}"
    if facts.pods_unknown:
        yield f"paid when the last process had ended, and unknown to the ledger: {', '.join(facts.pods_unknown)}"


def pods_are_in_the_ledger_before_they_are_asked_for(facts: Facts, _books: Books) -> Iterator[str]:
    """Whenever a request reaches the account."""
    for name in [] if facts.pods is None else facts.pods.unknown:
        yield f"{name} was asked for, and the ledger did not know it"


def no_more_pods_are_asked_for_than_are_wanted(facts: Facts, _books: Books) -> Iterator[str]:
    """Of each run."""
    for told in [] if facts.pods is None else facts.pods.too_many:
        yield f"one too many was asked for: {told}"


def what_may_still_come_is_not_given_up(facts: Facts, _books: Books) -> Iterator[str]:
    """A pod whose request had no answer; who has another clock cannot know how long ago that was."""
    if facts.pods is None or any(facts.plan.clocks) or facts.plan.of(FailureClass.CLOCK_JUMP):
        return
    for name in facts.pods.given_up:
        yield f"{name} was given up, and came a moment later"


def who_is_paused_has_no_pods(facts: Facts, books: Books) -> Iterator[str]:
    """A while after nothing of the run is under way at a pod any more, as long as a process is there to see to it."""
    pods = facts.pods
    if pods is None or facts.plan.of(FailureClass.ASLEEP):  # who sleeps sees to nothing
        return
    calm_at = EPOCH_AT + round(facts.plan.calm_at_s * SECOND_US)
    for run in facts.runs:
        for paused_at, continued_at in _pauses(facts, books, run.plan.name):
            for begun_at, ended_at in facts.lives:
                since, until = max(paused_at, begun_at, calm_at), min(continued_at, ended_at)
                own = [each for each in pods.sights if each.name.startswith(f"{run.plan.name}-") and each.at < until]
                by = ENDS_US + max([since, *(each.at for each in own if each.is_busy)])
                for each in own:
                    if each.is_paid and each.at > by:
                        yield f"{each.name} is paid {(each.at - since) / SECOND_US:.0f} s after {run.plan.name} was paused"


def _pauses(facts: Facts, books: Books, run: str) -> Iterator[tuple[int, int]]:
    """From when to when the run was paused, by the commands that were carried out and by the true clock."""
    since: int | None = None
    for command in books.commands:
        if command.run != run or command.done_at is None or command.is_refused:
            continue
        if command.action == Action.PAUSE and since is None:
            since = facts.moments.get(command.done_at, command.done_at)
        elif command.action in (Action.CONTINUE, Action.CANCEL) and since is not None:
            yield since, facts.moments.get(command.asked_at, command.asked_at)
            since = None
    if since is not None:
        yield since, STILL


OF_PODS = (
    no_pod_is_left_that_is_paid,
    pods_are_in_the_ledger_before_they_are_asked_for,
    no_more_pods_are_asked_for_than_are_wanted,
    what_may_still_come_is_not_given_up,
    who_is_paused_has_no_pods,
)
