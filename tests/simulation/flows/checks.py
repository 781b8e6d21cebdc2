"""What must be true of the flows of a world, whatever has befallen the engines that carry them out."""

import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from orchestrator.core.jobs.lifecycle import Event, State
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from tests.simulation.books import Books, JobRow, OutcomeRow, read_books
from tests.simulation.facts import Facts
from tests.simulation.flows.plan import PIPELINE, FlowsPlan
from tests.simulation.looked_up import SENT_AGAIN, input_of

STAGES: Final = ("first", "between", "last")

_RUNS: Final = "SELECT run_id FROM stages WHERE run_id IS NOT NULL"
_JOBS: Final = f"SELECT id FROM jobs WHERE run_id IN ({_RUNS})"
_APART: Final = (
    *(f"DELETE FROM {table} WHERE job_id IN ({_JOBS})" for table in ("events", "outcomes", "submissions")),
    *(
        f"DELETE FROM {table} WHERE run_id IN ({_RUNS})"
        for table in ("jobs", "counts", "executions", "commands", "run_samples")
    ),
    f"DELETE FROM runs WHERE id IN ({_RUNS})",
    f"DELETE FROM flows WHERE pipeline_id = (SELECT id FROM pipelines WHERE name = '{PIPELINE}')",
)


def whole_ledger(facts: Facts) -> Path:
    """Where all of the ledger is, of which the runs of flows were taken out."""
    return facts.ledger.with_name("whole.db")


def set_flows_apart(facts: Facts) -> None:
    """What is checked of the runs that people look after is said of these alone."""
    with closing(sqlite3.connect(facts.ledger)) as db, closing(sqlite3.connect(whole_ledger(facts))) as whole:
        db.backup(whole)  # the file alone is not all of it, where a process that was killed has left a connection
        with db:
            for statement in _APART:
                db.execute(statement)


class _Flow(NamedTuple):
    name: str
    state: str
    why: str


class _Went:
    """How the flows went."""

    def __init__(self, facts: Facts, plan: FlowsPlan) -> None:
        self.plan = plan
        self.books: Books = read_books(whole_ledger(facts))
        with closing(sqlite3.connect(whole_ledger(facts))) as db:
            self.flows = [
                _Flow(*row)
                for row in db.execute(
                    "SELECT flows.name, state, why FROM flows JOIN pipelines ON pipelines.id = pipeline_id"
                    f" WHERE pipelines.name = '{PIPELINE}' ORDER BY fire_at"
                )
            ]
        jobs = defaultdict[str, list[JobRow]](list)
        for job in self.books.jobs:
            jobs[job.run].append(job)
        self.jobs: Mapping[str, Sequence[JobRow]] = jobs
        """By run."""
        self.outcomes: Mapping[int, OutcomeRow] = {row.job: row for row in self.books.outcomes}
        """By job."""

    def latest(self, flow: _Flow, stage: str) -> Sequence[JobRow]:
        """Those of the last run of a stage: it may have been carried out once more."""
        runs = [run for run in self.jobs if run.partition("~")[0] == f"{flow.name}/{stage}"]
        return self.jobs[max(runs, key=lambda run: int(run.partition("~")[2] or 1))] if runs else ()


def _stage(run: str) -> str:
    return run.rpartition("/")[2].partition("~")[0]


def each_flow_succeeds(facts: Facts, _books: Books) -> Iterator[str]:
    """Once nothing goes wrong any more, and people have had tried again what has failed."""
    if (went := _went(facts)) is None:
        return
    if len(went.flows) != len(went.plan.asked_s):
        yield f"there are {len(went.flows)} flows of {len(went.plan.asked_s)}"
    for flow in went.flows:
        if flow.state != FlowState.SUCCEEDED:
            stages = {
                run.rpartition("/")[2]: dict(Counter(job.state for job in jobs))
                for run, jobs in went.jobs.items()
                if run.startswith(f"{flow.name}/")
            }
            yield f"{flow.name} is {flow.state} {flow.why!r} after {facts.plan.patience_s:g} s in which nothing went wrong: {stages}"


def each_row_is_handed_over_once(facts: Facts, _books: Books) -> Iterator[str]:
    """All rows of the input are in the first stage, and all that came of it in the last: of a command what it printed,
    which is of each row once at the most, since people may go on with fewer than it needs.
    """
    if (went := _went(facts)) is None:
        return
    for number, flow in enumerate(went.flows):
        if flow.state != FlowState.SUCCEEDED:
            continue
        wanted = [f"job-{n}" for n in went.plan.numbers(number)]
        jobs = {stage: went.latest(flow, stage) for stage in STAGES}
        ids = {stage: sorted(job.custom_id for job in found) for stage, found in jobs.items()}
        if ids["first"] != wanted:
            yield f"the first stage of {flow.name} has the rows {ids['first']}"
        if went.plan.has_command:
            if len(set(ids["between"])) < len(ids["between"]) or not set(ids["between"]) <= set(wanted):
                yield f"the command of {flow.name} has printed {ids['between']}"
            wanted = ids["between"]
        if ids["last"] != wanted:
            yield f"the last stage of {flow.name} was handed {ids['last']}, and there were {wanted}"
        for job in chain.from_iterable(jobs.values()):
            outcome = went.outcomes.get(job.id)
            if job.state != State.SUCCEEDED or outcome is None or outcome.output != input_of(job.custom_id):
                yield f"{job.custom_id} of {job.run} is {job.state}: {outcome}"


def no_row_is_paid_twice(facts: Facts, _books: Books) -> Iterator[str]:
    """The service has taken a row once for each stage, and once for each time that the ledger says why it was sent again;
    never for a run that has taken over its result.
    """
    if (went := _went(facts)) is None:
        return
    accepted = facts.accepted
    allowed = Counter[bytes]()
    why = defaultdict[bytes, list[str]](list)
    for run, jobs in went.jobs.items():
        for job in jobs if _stage(run) in {"first", "last"} else ():
            events = [row.event for row in went.books.events.get(job.id, ())]
            again = [event for event in events if event in SENT_AGAIN]
            allowed[input_of(job.custom_id)] += len(again) + (Event.CLAIMED in events)  # else it was taken over
            why[input_of(job.custom_id)] += again
    for raw_input, most in allowed.items():
        if accepted[raw_input] > most:
            yield f"{raw_input!r} was accepted {accepted[raw_input]} times at both stages after {why[raw_input]}"


def _went(facts: Facts) -> _Went | None:
    if facts.plan.engines is None or facts.plan.engines.flows is None or facts.failure is not None:
        return None
    return _Went(facts, facts.plan.engines.flows)


OF_FLOWS: Final = (each_flow_succeeds, each_row_is_handed_over_once, no_row_is_paid_twice)
