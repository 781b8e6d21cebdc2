"""Verbs of two processes that meet on one ledger on a server: that of its owner, and that of a guest beside it. Neither
may lose what the other has written, in whichever order their statements come.
"""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, NamedTuple

import anyio
import asyncpg

from orchestrator.api.outcomes.audit import Findings, audit_ledger
from orchestrator.clock import SystemClock
from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.jobs.job import Job
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transition_type import Transition
from orchestrator.engine.sending.canary_jobs import CanaryJobs
from orchestrator.errors import IntakeLostError
from orchestrator.ledger import Ledger, command_ledger, open_ledger
from orchestrator.ledger.actions.action_rows import AskedBefore
from orchestrator.ledger.actions.asker import ActionWay, Asker
from orchestrator.ledger.commands.command_types import Action, CancelledRun
from orchestrator.ledger.jobs.claim_queue import ClaimLine
from orchestrator.ledger.jobs.claims import Claimed, Claims
from orchestrator.ledger.runs.intake_writes import IntakeResult
from orchestrator.ledger.runs.runs import Run
from orchestrator.ledger.samples.sample_facts import SampleFacts
from orchestrator.ledger.samples.sample_repository import Sampling
from orchestrator.ledger.samples.samples import ProcessTotals
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import WHOLE
from tests.factories import STEPS, TTL_US, a_row
from tests.ledger.ledgers import a_run, added
from tests.postgres.databases import plain_connections
from tests.postgres.interleaving import Act, Actor, Choice, Play, each_order

TELLS: Final = RunSettings(notify="ops:started,done,partial")


class Meeting(NamedTuple):
    """Two acts, of the process that owns the ledger and of a guest, and what has to be so afterwards."""

    owner: Act
    guest: Act
    check: Callable[[object, object], Awaitable[None]]


Prepare = Callable[[Ledger, Ledger, str], Awaitable[Meeting]]
MEETINGS: dict[str, Prepare] = {}
"""By name: what makes a meeting, of the ledger as its owner has it, as a guest has it, and a name for a new run."""


def meeting(prepare: Prepare) -> Prepare:
    """Lists it."""
    MEETINGS[prepare.__name__.replace("_", " ")] = prepare
    return prepare


async def check_sound(ledger: Ledger) -> None:
    """What `verify` goes through is as it should be: counts are those of the states, nothing lacks what it belongs to."""
    findings = Findings()
    await audit_ledger(ledger, findings, lambda _what, _done, _total: None)
    assert findings.all() == (), findings.all()


async def claim(claims: Claims, run: Run) -> list[int]:
    """The jobs that were claimed."""
    line = ClaimLine(run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US)
    return [each.job.id for each in (await claims.take(line, most=9)).claims]


async def jobs_of(ledger: Ledger, run: Run) -> dict[str, State]:
    """The state of each job, by its custom_id."""
    page = await ledger.jobs.results.page(run.id, list(State), after=(0, 0), most=99, bytes_max=1 << 20)
    return {job.custom_id: job.state for job in page}


async def at_service(ledger: Ledger, run: Run) -> list[Job]:
    """Its jobs, brought to the service."""
    ids = await claim(ledger.jobs.claims, run)
    found = await ledger.jobs.of(ids)
    steps = [STEPS["accepted"][1](job, ledger.now()) for job in found.values()]
    await ledger.writer.apply(steps)
    return [step.after for step in steps]


@meeting
async def claims_and_rows_that_go(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """A row that the input does not have any more is sent, or goes: never both."""
    run = await a_run(owner, 3, name=name)
    intake = await guest.runs.intakes.start(run)
    await added(guest, intake, [a_row(1)])

    async def check(claimed: object, taken: object) -> None:
        assert isinstance(claimed, list)
        assert not isinstance(taken, Exception), taken
        there = await jobs_of(owner, run)
        assert sum(state is State.SUBMITTING for state in there.values()) == len(claimed), (there, claimed)

    return Meeting(lambda: claim(owner.jobs.claims, run), lambda: guest.runs.intakes.accept(intake, drop=True), check)


@meeting
async def chunks_and_rows_that_go(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """What travels together is what was claimed together."""
    run = await a_run(owner, 3, name=name)
    intake = await guest.runs.intakes.start(run)
    await added(guest, intake, [a_row(2)])
    line = ClaimLine(
        run.id, endpoint=run.endpoint_id, by_retry=False, ttl_of=lambda _: TTL_US, chunk=ChunkTerms(rows=3)
    )

    async def check(claimed: object, taken: object) -> None:
        assert not isinstance(taken, Exception), taken
        assert isinstance(claimed, Claimed)
        for lead in claimed.claims:
            assert {row.job.chunk for row in lead.rows} == {lead.job.submission}
            assert {row.job.chunk_rows for row in lead.rows} == {len(lead.rows)}

    return Meeting(
        lambda: owner.jobs.claims.take(line, most=1), lambda: guest.runs.intakes.accept(intake, drop=True), check
    )


@meeting
async def two_who_begin_to_take_in(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """One of them has lost its turn without knowing: what both took in would be that of either."""
    run = await a_run(owner, 1, name=name)

    async def check(first: object, second: object) -> None:
        assert sorted([isinstance(each, IntakeLostError) for each in (first, second)]) == [False, True]
        await owner.runs.intakes.clear(name)

    return Meeting(lambda: owner.runs.intakes.start(run), lambda: guest.runs.intakes.start(run), check)


@meeting
async def the_last_end_and_more_rows(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """A run that has jobs again was told to be over before it was told to have started, or not at all."""
    run = await a_run(owner, 1, name=name, settings=TELLS)
    [job] = await at_service(owner, run)
    intake = await guest.runs.intakes.start(run)
    await added(guest, intake, [a_row(1), a_row(2)])

    async def check(stepped: object, taken: object) -> None:
        assert stepped is True
        assert not isinstance(taken, Exception), taken
        told = [str(each.news) for each in await owner.flows.run_outbox.of(run.id)]
        assert told in (["started"], ["started", "done", "started"]), told

    step = STEPS["completed"][1](job, owner.now())
    return Meeting(lambda: owner.writer.step(step), lambda: guest.runs.intakes.accept(intake), check)


@meeting
async def the_last_end_and_the_last_row_that_goes(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """Whoever comes second owes the message that the run is over: nobody else does."""
    run = await a_run(owner, 1, name=name, settings=TELLS)
    [job] = await at_service(owner, run)
    more = await guest.runs.intakes.start(run)
    await added(guest, more, [a_row(1), a_row(2)])
    await guest.runs.intakes.accept(more)
    intake = await guest.runs.intakes.start(run)
    await added(guest, intake, [a_row(1)])

    async def check(stepped: object, taken: object) -> None:
        assert stepped is True
        assert not isinstance(taken, Exception), taken
        told = [str(each.news) for each in await owner.flows.run_outbox.of(run.id)]
        assert told in (["started", "done"], ["started", "partial"]), told

    step = STEPS["completed"][1](job, owner.now())
    return Meeting(lambda: owner.writer.step(step), lambda: guest.runs.intakes.accept(intake, drop=True), check)


@meeting
async def claims_and_rows_that_count_as_they_come(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """Both add to the same counts."""
    run = await a_run(owner, 2, name=name)
    intake = await guest.runs.intakes.start(run, as_they_come=True)

    async def check(claimed: object, clashes: object) -> None:
        assert clashes == []
        assert isinstance(claimed, list)
        counts = await owner.runs.counts(run.id)
        assert counts["queued"] + counts.get("submitting", 0) == 4
        assert counts["submitting"] == len(claimed)

    return Meeting(lambda: claim(owner.jobs.claims, run), lambda: added(guest, intake, [a_row(3), a_row(4)]), check)


@meeting
async def another_endpoint_and_rows_that_count_as_they_come(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """Whatever comes is where its run is."""
    run = await a_run(owner, 1, name=name)
    intake = await guest.runs.intakes.start(run, as_they_come=True)

    async def check(is_rebound: object, clashes: object) -> None:
        assert is_rebound is True, is_rebound
        assert clashes == []
        there = await owner.runs.named(name)
        assert there is not None
        assert there.endpoint_id != run.endpoint_id
        assert len(await claim(owner.jobs.claims, there)) == 3

    return Meeting(
        lambda: owner.runs.rebind(run.id, service_url=run.service_url, endpoint="other"),
        lambda: added(guest, intake, [a_row(2), a_row(3)]),
        check,
    )


@meeting
async def cancelling_and_going_on(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """What people have go on after all is owed no `/cancel`, however late somebody was to owe it."""
    run = await a_run(owner, 2, name=name)
    await at_service(owner, run)
    asked = await owner.commands.ask(Action.CANCEL, run=run.id, argument=CancelledRun(grace_us=0))
    await owner.commands.change_ledger(await owner.commands.one(asked))
    again = await guest.commands.one(await guest.commands.ask(Action.CONTINUE, run=run.id))

    async def check(owed: object, changed: object) -> None:
        assert not isinstance(owed, Exception), owed
        assert not isinstance(changed, Exception), changed
        assert not (await owner.runs.controls(run.id)).cancel
        due = await owner.jobs.cancels.due(now=owner.now() + TTL_US, after=(0, 0), most=9)
        jobs = {job.id for job in (await owner.jobs.of([each.job for each in due])).values() if job.run == run.id}
        assert jobs == set(), jobs

    return Meeting(
        lambda: owner.jobs.cancels.owe_run(run.id, most=9, now=owner.now()),
        lambda: guest.commands.change_ledger(again),
        check,
    )


@meeting
async def a_late_answer_and_a_run_that_is_cleared(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """Nothing is left of a job that was removed while something of it was written."""
    run = await a_run(owner, 1, name=name)
    [job] = await at_service(owner, run)
    asked = await owner.commands.ask(Action.CANCEL, run=run.id, argument=CancelledRun(grace_us=0))
    await owner.commands.change_ledger(await owner.commands.one(asked))
    assert await owner.runs.take_back(run.id)

    async def check(stepped: object, cleared: object) -> None:
        assert isinstance(stepped, bool), stepped
        assert cleared is None, cleared
        assert await owner.runs.named(name) is None

    step = STEPS["completed"][1](job, owner.now())
    return Meeting(lambda: owner.writer.step(step), lambda: guest.runs.intakes.clear(name), check)


@meeting
async def rows_that_go_first_and_rows_that_are_corrected(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """Who is told that jobs came has those go first that are there by then."""
    run = await a_run(owner, [a_row(n, f"row-{n}") for n in range(1, 4)], name=name)
    canary = CanaryJobs(run.id, owner)
    intake = await guest.runs.intakes.start(run)
    await added(guest, intake, [a_row(n, f"row-{n}", payload=b"99") for n in range(1, 4)])

    async def check(chosen: object, taken: object) -> None:
        assert chosen is None, chosen
        assert isinstance(taken, IntakeResult), taken
        assert taken.corrected.done == 3, taken
        await canary.choose(2, WHOLE)
        assert canary.is_awaited
        assert sorted(await owner.jobs.of(canary.chosen)) == sorted(canary.chosen)
        assert canary.facts(WHOLE).chosen == len(canary.chosen)

    return Meeting(lambda: canary.choose(2, WHOLE), lambda: guest.runs.intakes.accept(intake), check)


@meeting
async def one_message_and_two_who_send(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """One of them has it."""
    run = await a_run(owner, 1, name=name, settings=TELLS)
    [message] = await owner.flows.run_outbox.of(run.id)
    due, until = message.due_at, owner.now() + TTL_US

    async def check(one: object, other: object) -> None:
        assert {one, other} == {False, True}, (one, other)

    return Meeting(
        lambda: owner.flows.run_outbox.claim(message.id, due, until),
        lambda: guest.flows.run_outbox.claim(message.id, due, until + 1),
        check,
    )


@meeting
async def samples_and_steps_of_others(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """Each event up to where a sample says that it stands is in it: none comes later with a smaller number."""
    run = await a_run(owner, 2, name=name)
    jobs = await at_service(owner, run)
    seen: dict[str, int] = {}

    def look(facts: SampleFacts, _steps: Sequence[Transition]) -> Sampling:
        seen["position"], seen["succeeded"] = facts.position, facts.counts[run.id].get("succeeded", 0)
        return Sampling(at=facts.at, step_s=10, runs={}, ended={}, endpoints={}, process=ProcessTotals(position=0))

    async def check(sampled: object, stepped: object) -> None:
        assert sampled is None, sampled
        assert stepped is True, stepped
        missed, _ = await owner.samples.unsampled.after(seen["position"], most=99)
        assert seen["succeeded"] + len([each for each in missed if each.run == run.id]) == 1

    step = STEPS["completed"][1](jobs[0], owner.now())
    return Meeting(lambda: owner.samples.take([run.id], look, lambda _: None), lambda: guest.writer.step(step), check)


@meeting
async def one_form_that_is_posted_twice(owner: Ledger, guest: Ledger, name: str) -> Meeting:
    """It acts once, and whoever comes second is told which action that was."""
    run = await a_run(owner, 1, name=name)
    asked = Asker(way=ActionWay.PAGE, form=f"form-of-{name}")

    async def check(one: object, other: object) -> None:
        first = await owner.actions.of_form(f"form-of-{name}")
        assert first is not None
        came = sorted((one, other), key=lambda each: isinstance(each, AskedBefore))
        assert isinstance(came[0], int), came
        assert isinstance(came[1], AskedBefore), came
        assert (first.command, first.id) == (came[0], came[1].action)

    def ask(ledger: Ledger) -> Awaitable[object]:
        return ledger.commands.ask(Action.PAUSE, run=run.id, asked=asked)

    return Meeting(lambda: ask(owner), lambda: ask(guest), check)


class Scene(NamedTuple):
    """A ledger as its owner has it, and as a guest does, each with its actor, and a connection of nobody's."""

    actors: Sequence[Actor]
    owner: Ledger
    guest: Ledger
    admin: Any


@asynccontextmanager
async def two_processes(url: str) -> AsyncIterator[Scene]:
    """Both, in the database at `url`."""
    actors = [Actor(), Actor()]
    address, connect = parse_ledger_url(url), plain_connections(url)
    async with AsyncExitStack() as stack:
        admin = await asyncpg.connect(url)
        stack.callback(admin.terminate)
        owner = await stack.enter_async_context(
            open_ledger(address, clock=SystemClock(), connect=actors[0].connecting(connect))
        )
        tasks = await stack.enter_async_context(anyio.create_task_group())
        stack.callback(tasks.cancel_scope.cancel)
        await tasks.start(owner.writer.serve)
        guest = await stack.enter_async_context(
            command_ledger(address, clock=SystemClock(), connect=actors[1].connecting(connect))
        )
        guest.runs.intakes.pace.is_beside = lambda: False  # it would rest as long as it was stopped
        yield Scene(actors, owner, guest, admin)


async def met(url: str, prepare: Prepare, *, made_way_max: int | None = None) -> int:
    """Has the two meet in all orders in the ledger at `url`; returns in how many. Raises `AssertionError`."""
    async with two_processes(url) as scene:
        names = (f"run-{number}" for number in itertools.count())

        async def play(first: Sequence[int]) -> Sequence[Choice]:
            made = await prepare(scene.owner, scene.guest, next(names))
            once = Play(scene.actors, [made.owner, made.guest], scene.admin)
            await once.played(first)
            with once.told_of():
                await made.check(once.came[0], once.came[1])
            return once.choices

        orders = await each_order(play, made_way_max=made_way_max)
        await check_sound(scene.owner)
        return orders
