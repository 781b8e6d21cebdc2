"""What must be true of the samples of a played world: over kills and clocks, and at its end."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, pairwise
from typing import Any

from orchestrator.core.jobs.job import Unsaved
from orchestrator.core.jobs.lifecycle import TERMINAL, TRANSITIONS, Event, State
from orchestrator.core.jobs.run_counters import NO_NEWS, PAID_TWICE
from tests.simulation.books import Books, EventRow
from tests.simulation.facts import Facts
from tests.simulation.looked_up import is_carried

COUNTERS = ("submissions", "ends", "executions", "settled")
BUCKETS = ("margin", "queue", "execution")


def _grown(body: Mapping[str, Any]) -> dict[str, float]:
    """Everything in a sample that only grows."""
    found = {f"{name} {key}": n for name in COUNTERS for key, n in body.get(name, {}).items()}
    for name in BUCKETS:
        found |= {f"{name} {n}": count for n, count in enumerate(body.get(name, {}).get("counts", ()))}
    for operation, use in body.get("operations", {}).items():
        found |= {f"{operation} {code}": n for code, n in use.get("codes", {}).items()}
    return found | {"paid twice": body.get("paid_twice", 0)}


def no_counter_of_samples_falls(_facts: Facts, books: Books) -> Iterator[str]:
    """What is counted goes on over kills, restarts and clocks that were wrong."""
    for of, samples in chain(books.history.runs.items(), books.history.endpoints.items()):
        for before, after in pairwise(samples):
            now = _grown(after.body)
            fell = [name for name, n in _grown(before.body).items() if now.get(name, 0) < n]
            if fell:
                yield f"{', '.join(fell)} of {of} fell between {before.at} and {after.at}"


def _ends(rows: Iterator[EventRow]) -> Counter[str]:
    leads = {event: state for row in TRANSITIONS.values() for event, state in row.items()}
    states = (leads[Event(row.event)] for row in rows)
    return Counter(state.value for state in states if state in TERMINAL)


def _without_late(counts: Mapping[str, int]) -> dict[str, int]:
    """Without what is learned of a run that is over, or saved of it, of which no sample is taken any more."""
    return {name: n for name, n in counts.items() if name not in (NO_NEWS, PAID_TWICE, *Unsaved)}


def the_last_samples_say_what_the_ledger_says(facts: Facts, books: Books) -> Iterator[str]:
    """Once all is over, the counters of the samples are those of the events, and the counts those of the tables."""
    if not facts.finished or facts.failure is not None or _is_to_be_made_good(facts):
        return
    runs = {job.id: job.run for job in books.jobs}
    for run in {job.run for job in books.jobs}:
        rows = [row for job, of_job in books.events.items() if runs[job] == run for row in of_job]
        samples = books.history.runs.get(run, ())
        if not samples:
            yield f"there is no sample of {run}"
            continue
        last = samples[-1].body
        told = {
            "ends": (last.get("ends", {}), dict(_ends(iter(rows)))),
            "counts": tuple(_without_late(each) for each in (last.get("counts", {}), books.history.counts[run])),
            "unanswered": (
                last.get("submissions", {}).get("unanswered", 0),
                sum(row.event == Event.UNANSWERED and not is_carried(books, row) for row in rows),
            ),
        }
        for name, (sampled, kept) in told.items():
            if sampled != kept:
                yield f"the last sample of {run} has {name} {sampled}, the ledger {kept}"
        if any(last.get("counts", {}).get(state.value) for state in State if state not in TERMINAL):
            yield f"the last sample of {run} has something to do"
    if facts.plan.engines is None or facts.plan.engines.flows is None:  # else those of flows have ended there, too
        yield from _ends_at_endpoints(books)


def _ends_at_endpoints(books: Books) -> Iterator[str]:
    ends: Counter[str] = Counter()
    for samples in books.history.endpoints.values():
        ends.update(samples[-1].body.get("ends", {}))
    if ends != _ends(chain.from_iterable(books.events.values())):
        yield f"the last samples of the endpoints have ends {dict(ends)}"


def _is_to_be_made_good(facts: Facts) -> bool:
    """Whether what is missing is counted once somebody serves the endpoints again, and nobody had to."""
    return facts.engines is not None and facts.engines.is_last_word_missing
