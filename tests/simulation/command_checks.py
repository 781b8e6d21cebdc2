"""What must be true of what people asked while a world was played."""

from collections import Counter, defaultdict
from collections.abc import Iterator

from orchestrator.core.jobs.lifecycle import Event
from orchestrator.engine.hosting.worker_scaling import END_S_MAX
from orchestrator.ledger.commands.command_types import Action, ReplyCode
from orchestrator.units import SECOND_US
from tests.simulation.books import Books, CommandRow
from tests.simulation.facts import Facts
from tests.simulation.plan import Word

AT_ONCE_US = 2 * SECOND_US
"""Whoever works on a ledger follows what was acknowledged within so long: it looks four times a second."""

ENDING_US = round(END_S_MAX * SECOND_US)
"""So long a process that ends sees to its pods, and takes no command any more."""

WORKED_US = 10 * SECOND_US
"""Whoever has worked for so long has carried out what was asked."""

ACTIONS = {
    Word.PAUSE: Action.PAUSE,
    Word.CONTINUE: Action.CONTINUE,
    Word.CANCEL: Action.CANCEL,
    Word.RETRY: Action.RETRY,
    Word.PRIORITY: Action.PRIORITY,
    Word.LIMITS_SET: Action.LIMITS_SET,
    Word.LIMITS_RESET: Action.LIMITS_RESET,
}


def each_command_is_acknowledged_once(facts: Facts, books: Books) -> Iterator[str]:
    """With what came of it, by whoever worked next; nobody was told anything else."""
    for row in books.commands:
        if row.done_at is None:
            worked_us = facts.up_us(facts.moments[row.asked_at], facts.true.now())
            if worked_us > WORKED_US + (0 if facts.plan.pods is None else ENDING_US):
                yield f"{row.action} of {row.run} was not acknowledged in {worked_us / SECOND_US:.1f} s of work"
        elif not row.outcome:
            yield f"{row.action} of {row.run} came to nothing that was said"
    outcomes = {(row.action, row.outcome) for row in books.commands}
    for told in facts.asked:
        if told.outcome is not None and not told.refused and (ACTIONS[told.word], told.outcome) not in outcomes:
            yield f"somebody was told of {told.word}: {told.outcome!r}, which nobody wrote down"


def no_command_stands_there_twice(facts: Facts, books: Books) -> Iterator[str]:
    """As often as somebody asked for it, at the most."""
    asked = Counter(row.action for row in books.commands if row.action in ACTIONS.values())  # not what a follower asks
    tried: Counter[str] = Counter()
    for word, n in facts.tries.items():
        tried[ACTIONS[word]] += n
    for action, n in asked.items():
        if n > tried[action]:
            yield f"{action} was asked {tried[action]} times, and stands there {n} times"


def no_command_is_carried_out_twice(facts: Facts, books: Books) -> Iterator[str]:
    """A job is reopened once for each retry that was acknowledged, at the most."""
    retries = Counter(row.run for row in books.commands if row.action == Action.RETRY and not row.is_refused)
    for job in books.jobs:
        reopened = sum(row.event == Event.REOPENED for row in books.events.get(job.id, ()))
        if reopened > retries[job.run]:
            yield f"{job.custom_id} was reopened {reopened} times for {retries[job.run]} retries"


def what_was_asked_last_holds(_facts: Facts, books: Books) -> Iterator[str]:
    """A run whose last word was `cancel` is to be cancelled at the end, and so on."""
    for run, rows in _of_runs(books).items():
        pause = cancel = False
        for row in rows:
            pause = row.action == Action.PAUSE or (pause and row.action != Action.CONTINUE)
            cancel = row.action == Action.CANCEL or (cancel and row.action != Action.CONTINUE)
        if (stands := books.controls.get(run)) != (pause, cancel):
            yield f"{run} stands as {stands} after {', '.join(row.action for row in rows)}"


def who_is_stopped_sends_nothing(facts: Facts, books: Books) -> Iterator[str]:
    """Between the acknowledgement of `pause` or `cancel` and `continue`, but for what was on its way."""
    inputs = {run.plan.name: {b'{"n":%d}' % n for n in run.numbers} for run in facts.runs}
    for run, rows in _of_runs(books).items():
        for number, row in enumerate(rows):
            lifted = next((later for later in rows[number:] if later.action == Action.CONTINUE), None)
            if row.action == Action.CONTINUE or row.done_at is None:
                continue
            since = facts.moments[row.done_at]
            until = facts.moments[lifted.asked_at] if lifted is not None else facts.true.now()
            late = [at for at, sent in facts.sent if since < at < until and sent in inputs.get(run, ())]
            if late and facts.up_us(since, late[-1]) > AT_ONCE_US:
                yield f"a job of {run} was sent {(late[-1] - since) / SECOND_US:.1f} s after {row.action} was acknowledged"


def _of_runs(books: Books) -> dict[str, list[CommandRow]]:
    """What was asked of each run, and done, in that order; what came once a run had ended was not."""
    found: defaultdict[str, list[CommandRow]] = defaultdict(list)
    for row in books.commands:
        is_wish = row.action in {Action.PAUSE, Action.CONTINUE, Action.CANCEL}
        was_late = row.action != Action.CONTINUE and row.code == ReplyCode.HAD_ENDED
        if is_wish and row.done_at is not None and not row.is_refused and not was_late:
            found[row.run].append(row)
    return found
