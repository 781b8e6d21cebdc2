"""What must be true of the messages of a played world, whatever those who are told do with them."""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.units import SECOND_US
from tests.simulation.books import Books, MessageRow
from tests.simulation.facts import Facts
from tests.simulation.plan import FailureClass
from tests.simulation.receivers import Heard

ENDS: Final = frozenset({RunNews.DONE.value, RunNews.PARTIAL.value, RunNews.FAILED.value})
FIGURES: Final = ("rows", "succeeded", "failed", "cancelled")


def _number(row: MessageRow) -> str:
    """What a message is called, written a second time."""
    return f"msg_{hashlib.sha256(f'{row.id} {row.owed_at} run {row.run_id}'.encode()).hexdigest()[:32]}"


def _by_number(facts: Facts) -> dict[str, list[Heard]]:
    found: defaultdict[str, list[Heard]] = defaultdict(list)
    for heard in facts.heard:
        found[heard.number].append(heard)
    return dict(found)


def every_message_that_is_owed_arrives(facts: Facts, books: Books) -> Iterator[str]:
    """Once receivers are well, and somebody has asked that what waits is sent, each was taken; and no other one was."""
    if not facts.finished or facts.failure is not None:
        return
    heard = _by_number(facts)
    owed = {_number(row): row for row in books.messages}
    for number, row in owed.items():
        is_taken = any(each.lie is None for each in heard.get(number, ()))
        if not is_taken or row.told_at is None or row.given_up_at is not None:
            state = "nobody has taken it" if not is_taken else f"told {row.told_at}, given up {row.given_up_at}"
            yield f"{row.news} of {row.run} is owed to {row.target or 'an address'}, and {state}: {row.problem}"
    for number in heard.keys() - owed.keys():
        yield f"{number} was told, and nobody owes it"


def no_message_is_taken_twice(facts: Facts, _books: Books) -> Iterator[str]:
    """What was taken is sent again only where whoever had sent it ended before that was written down; and it is the
    same message each time.
    """
    for number, heard in _by_number(facts).items():
        taken = [each for each in heard if each.lie is None]
        for first, again in pairwise(taken):
            if not _is_cut_off(facts, first, again.at):
                yield f"{number} was taken {(again.at - first.at) / SECOND_US:g} s after it had been"
        if len({each.body for each in heard}) > 1:
            yield f"{number} was another message the second time"


def _is_cut_off(facts: Facts, first: Heard, again_at: int) -> bool:
    """Whether who had sent the `first` one had ended by then, or could not write down what became of it."""
    if facts.engines is None:
        return any(first.at <= end <= again_at for _, end in facts.lives)
    sender = next(each for each in facts.engines.processes if str(each) == first.sender)
    return not sender.is_able(first.at, again_at)


def an_episode_is_one_message(facts: Facts, books: Books) -> Iterator[str]:
    """That something holds of a run is told once until it is told that it does not, or that the run is over; and no end
    is told twice.
    """
    opened = [row.at for rows in books.events.values() for row in rows if row.event == Event.REOPENED]
    key = lambda row: (row.run, row.target)  # noqa: E731
    for (run, target), rows in groupby(sorted(books.messages, key=key), key=key):
        holds: set[str] = set()
        last: tuple[MessageRow, tuple[int, ...]] | None = None
        for row in rows:
            if row.news in ENDS:
                figures = tuple(json.loads(row.body)["data"][name] for name in FIGURES)
                if last is not None and last[1] == figures and not any(last[0].owed_at <= at for at in opened):
                    yield f"the end of {run} was owed twice to {target or 'an address'}, with {figures} each time"
                holds, last = set(), (row, figures)
            elif row.news == RunNews.RECOVERED:
                holds -= {news for news in holds if news in json.loads(row.body)["data"]["why"]}
            elif row.news in holds:
                yield f"that {run} is {row.news} was owed twice to {target or 'an address'}"
            else:
                holds.add(row.news)


def who_wants_a_rest_has_it(facts: Facts, _books: Books) -> Iterator[str]:
    """A `Retry-After` is kept, unless a clock is wrong, or a person asks for it sooner, or whoever had heard it ended before
    that was written down.
    """
    if facts.plan.of(FailureClass.CLOCK_JUMP) or any(facts.plan.clocks):
        return
    for number, heard in _by_number(facts).items():
        for before, after in pairwise(heard):
            is_asked = facts.resent_at is not None and after.at >= facts.resent_at
            is_early = after.at - before.at < round(before.wait_s * SECOND_US)
            if is_early and not is_asked and not _is_cut_off(facts, before, after.at):
                yield f"{number} came again {(after.at - before.at) / SECOND_US:g} s after {before.wait_s:g} s were asked"
