"""Workers for the length of a run: raised before its first job, and put back whatever ends it."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.api.admin.tidy import Tidied, tidy
from orchestrator.api.foreground.run import run as run_in_foreground
from orchestrator.api.foreground.serve import serve
from orchestrator.api.inspect.doctor import facts_of
from orchestrator.api.inspect.status import latest
from orchestrator.client import Service
from orchestrator.client.jobs.refusals import Refusal, RefusedError
from orchestrator.clock import SystemClock
from orchestrator.core.diagnosis.causes import Cause, Finding
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.gates.scaling_override import Bounds
from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.server import Emulator
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.process.heartbeat import BEAT_S
from orchestrator.errors import LedgerBusyError, StoppedError, UsageError, leading
from orchestrator.ledger import read_ledger
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary
from tests.api.runs.test_program import Silence
from tests.emulator.accounts import TEMPLATE
from tests.engine.pods.workplace import nobody_holds
from tests.engine.process import SAMPLE_EVERY_S
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import Crash, run, run_until_crash
from tests.simulation.transport import SimulatedTransport
from tests.simulation.world import URL

CONNECTION = ConnectionSettings(serverless_url=URL, rest_url=URL, api_key="key")


class Place:
    """An account with one endpoint, a ledger, and a person who hears what is said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        empty_ledger(folder / "db")
        self.clock = VirtualClock()
        self.seen: list[tuple[int, int]] = []
        self.fails = False
        self.takes_s = 20
        self.emulator = Emulator(
            EmulatorSettings(endpoints={"*": self._work}, propagation_s=0),
            clock=self.clock,
            rng=random.Random(1),
        )
        template = self.emulator.account.templates.save(TEMPLATE)
        wanted = {"templateId": template.id, "workersMin": 0, "workersMax": 3}
        self.endpoint = self.emulator.account.endpoints.create(wanted, self.clock.now()).id
        self.console = Silence()
        self.more: dict[str, Any] = {}

    async def _work(self, _job: dict[str, Any]) -> object:
        self.seen.append(self.bounds)
        await anyio.sleep(self.takes_s)
        if self.fails:
            raise ValueError("broken")
        return {}

    @property
    def bounds(self) -> tuple[int, int]:
        """As the account has them."""
        record = self.emulator.account.endpoints.find(self.endpoint)
        return record.workers_min, record.workers_max

    def change(self, workers_max: int) -> None:
        """A person changes them."""
        wanted = {"workersMax": workers_max}
        self.emulator.account.endpoints.update(self.endpoint, wanted, self.clock.now())

    @property
    def dependencies(self) -> Dependencies:
        transport = SimulatedTransport(self.emulator.app, cut=ConnectionCut)
        return Dependencies(
            clock=self.clock,
            environ={},
            service=lambda connection, clock: Service(connection.serverless_url, "key", clock, transport=transport),
            connect=async_creator,
            sample_every_s=SAMPLE_EVERY_S,
            say_every_s=BEAT_S,  # seldom, or each test would take seconds more
            watch_every_s=BEAT_S,
            **self.more,
        )

    async def carry_out(
        self, jobs: int = 12, *, name: str = "in", stop: anyio.Event | None = None, **settings: Any
    ) -> Summary:
        """A run of so many jobs, which wants ten workers at most."""
        source = self.folder / f"{name}.jsonl"
        source.write_text("".join(json.dumps({"n": n}) + "\n" for n in range(jobs)))
        request = RunRequest(
            name=name,
            source=str(source),
            endpoint=self.endpoint,
            ledger=self.folder / "db",
            connection=CONNECTION,
            settings=RunSettings(**{"workers_max": 10, **settings}),
        )
        return await run_in_foreground(request, self.console, self.dependencies, stop)

    async def tidy(self) -> Tidied:
        """What a person does after a crash."""
        return await tidy(serving(self), self.dependencies)

    def world(self, main: Callable[[], Any]) -> Any:
        """Runs `main` while the emulator serves, with a deadline far away."""
        return run(lambda: self.served(main))

    async def served(self, main: Callable[[], Any]) -> Any:
        try:
            with anyio.fail_after(3_600):
                async with anyio.create_task_group() as tasks:
                    await tasks.start(self.emulator.serve)
                    came = await main()
                    tasks.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise leading(group) from None
        return came


def serving(place: Place) -> ServeRequest:
    return ServeRequest(ledger=place.folder / "db", connection=CONNECTION)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_workers_are_raised_before_the_first_job_and_put_back_after_the_last(place: Place) -> None:
    summary = place.world(place.carry_out)
    assert summary.jobs["succeeded"] == 12
    assert set(place.seen) == {(0, 10)}
    assert place.bounds == (0, 3)
    assert (
        f"{place.endpoint}: 0 to 10 workers instead of 0 to 3 workers, as long as in is at work" in place.console.lines
    )
    assert f"{place.endpoint}: 0 to 3 workers again" in place.console.lines
    assert place.world(place.tidy) == []


def test_warm_workers_are_there_for_the_length_of_a_run(place: Place) -> None:
    place.world(lambda: place.carry_out(workers_max=None, workers_min=4))
    assert set(place.seen) == {(4, 4)}
    assert place.bounds == (0, 3)


def test_what_an_endpoint_has_already_is_not_changed(place: Place) -> None:
    place.world(lambda: place.carry_out(workers_max=2))
    assert set(place.seen) == {(0, 3)}
    assert place.bounds == (0, 3)


def test_they_are_put_back_after_failures(place: Place) -> None:
    place.fails = True
    summary = place.world(lambda: place.carry_out(max_attempts=1))
    assert summary.jobs["failed"] == 12
    assert (set(place.seen), place.bounds) == ({(0, 10)}, (0, 3))


def test_they_are_put_back_where_the_run_is_stopped(place: Place) -> None:
    place.fails = True
    with pytest.raises(StoppedError):
        place.world(lambda: place.carry_out(jobs=100, max_attempts=1, stop_after_failures=5, queue_depth=1))
    assert (0, 10) in place.seen
    assert place.bounds == (0, 3)


def test_they_are_put_back_after_ctrl_c(place: Place) -> None:
    found: list[Summary] = []

    async def interrupted() -> None:
        stop = anyio.Event()

        async def press() -> None:
            await anyio.sleep(10)
            stop.set()

        async with anyio.create_task_group() as group:
            group.start_soon(press)
            found.append(await place.carry_out(jobs=100, stop=stop))

    place.world(interrupted)
    [summary] = found
    assert summary.interrupted
    assert summary.jobs["outstanding"] > 0
    assert (set(place.seen), place.bounds) == ({(0, 10)}, (0, 3))


# --- killed


def killed(place: Place, at_s: float = 0.5) -> None:
    """A process is killed once it has raised the workers."""
    crash = Crash()
    place.more = {"lock": nobody_holds, "intake_lock": nobody_holds}

    async def dies() -> None:
        async with anyio.create_task_group() as group:

            async def pull() -> None:
                while place.bounds != (0, 10):  # noqa: ASYNC110  nobody tells of it
                    await anyio.sleep(0.001)
                await anyio.sleep(at_s)
                crash.pull()

            group.start_soon(pull)
            await place.served(place.carry_out)

    assert run_until_crash(dies) is not None
    assert place.bounds == (0, 10)
    place.emulator._workforce._handlers._running.clear()  # their tasks died with that world: to cancel them would never end


def test_after_a_kill_runs_tidy_puts_them_back_once(place: Place) -> None:
    killed(place)
    [found] = place.world(place.tidy)
    assert found.is_put_back
    assert (found.before, found.raised, found.now) == (Bounds(0, 3), Bounds(0, 10), Bounds(0, 3))
    assert place.bounds == (0, 3)
    assert place.world(place.tidy) == []


@pytest.mark.slow
def test_after_a_kill_another_run_puts_them_back(place: Place) -> None:
    killed(place)
    place.seen.clear()
    place.world(lambda: place.carry_out(40, name="other", workers_max=None))
    assert (place.seen[-1], place.bounds) == ((0, 3), (0, 3)), "it has them back before its end"


@pytest.mark.slow
def test_after_a_kill_the_same_run_goes_on_with_them_and_puts_them_back(place: Place) -> None:
    killed(place, at_s=0.01)
    place.seen.clear()
    place.world(place.carry_out)
    assert (set(place.seen), place.bounds) == ({(0, 10)}, (0, 3))


@pytest.mark.slow
def test_after_a_kill_serve_goes_on_and_puts_them_back(place: Place) -> None:
    killed(place, at_s=0.01)
    place.console.lines.clear()

    async def served() -> None:
        stop = anyio.Event()
        async with anyio.create_task_group() as group:

            async def until_back() -> None:
                while place.bounds != (0, 3):  # noqa: ASYNC110  nobody tells of it
                    await anyio.sleep(1)
                stop.set()

            group.start_soon(until_back)
            await serve(serving(place), place.console, place.dependencies, stop)

    place.world(served)
    assert place.bounds == (0, 3)
    assert any("in: finished" in line for line in place.console.lines)
    changes = [line for line in place.console.lines if line.startswith(place.endpoint)]
    assert changes == [f"{place.endpoint}: 0 to 3 workers again"], "they stay until then as they were left"


def test_a_kill_before_they_were_raised_leaves_nothing_to_put_back(place: Place) -> None:
    killed(place)
    place.change(workers_max=3)
    [found] = place.world(place.tidy)
    assert (found.is_put_back, place.bounds) == (True, (0, 3))


# --- people


def test_what_a_person_has_changed_after_a_kill_is_left_alone_and_said(place: Place) -> None:
    killed(place)
    place.change(workers_max=6)
    [found] = place.world(place.tidy)
    assert (found.is_put_back, place.bounds) == (True, (0, 6))
    assert found.outcome == "somebody has made it 0 to 6 workers meanwhile; it is left so"
    assert place.world(place.tidy) == []


def test_what_a_person_changes_while_it_runs_is_left_alone_too(place: Place) -> None:
    async def meddled() -> None:
        async with anyio.create_task_group() as group:

            async def meddle() -> None:
                await anyio.sleep(10)
                place.change(workers_max=5)

            group.start_soon(meddle)
            await place.carry_out()

    place.world(meddled)
    assert place.bounds == (0, 5)
    assert any("somebody has made it 0 to 5 workers" in line for line in place.console.lines)


@pytest.mark.slow
def test_a_run_that_goes_on_after_a_persons_change_leaves_it_alone(place: Place) -> None:
    killed(place, at_s=0.01)
    place.change(workers_max=4)
    place.seen.clear()
    place.world(place.carry_out)
    assert (set(place.seen), place.bounds) == ({(0, 4)}, (0, 4))


@pytest.mark.slow
def test_of_several_runs_the_largest_wish_wins_and_the_last_one_ends_it(place: Place) -> None:
    between: list[tuple[int, int]] = []

    async def beside() -> None:
        stop = anyio.Event()

        async def first() -> None:
            await place.carry_out(2, name="first", workers_max=20)
            between.append(place.bounds)

        async def second() -> None:
            await anyio.sleep(1)
            await place.carry_out(60)
            await anyio.sleep(10)
            stop.set()

        async with anyio.create_task_group() as group:
            group.start_soon(serve, serving(place), place.console, place.dependencies, stop)
            await anyio.sleep(1)
            group.start_soon(first)
            group.start_soon(second)
            await stop.wait()
            between.append(place.bounds)

    place.world(beside)
    assert set(place.seen) == {(0, 20)}
    assert between == [(0, 20), (0, 3)]


# --- refused


class Forbidden(RunEndpoints):
    """An account whose key may look, and change nothing."""

    async def set_bounds(self, endpoint: str, bounds: Bounds) -> None:
        raise RefusedError(f"endpoints update {endpoint}", Refusal(status=403, title="Forbidden"))


def test_a_key_that_may_not_is_told_before_anything_is_sent(place: Place) -> None:
    place.more["account"] = Forbidden
    with pytest.raises(UsageError, match=r"workers_max=: .*the API key has no permission.*no job was sent"):
        place.world(place.carry_out)
    assert (place.seen, place.bounds) == ([], (0, 3))
    place.more.clear()
    assert place.world(place.tidy) == [], "nothing was changed that could be put back"


def test_what_has_no_workers_or_no_account_is_refused(place: Place) -> None:
    async def elsewhere(**changes: Any) -> None:
        request = RunRequest(
            name="in",
            source=str(place.folder / "in.jsonl"),
            endpoint=place.endpoint,
            ledger=place.folder / "db",
            connection=CONNECTION,
            settings=RunSettings(workers_min=2),
        )
        await run_in_foreground(replace(request, **changes), place.console, place.dependencies)

    (place.folder / "in.jsonl").write_text('{"n":1}\n')
    (place.folder / "f.py").write_text("def f(job):\n    return job\n")
    usual = ConnectionSettings(serverless_url=URL, api_key="key")
    with pytest.raises(UsageError, match="workers_min= needs rest_url="):
        place.world(lambda: elsewhere(connection=usual))
    with pytest.raises(UsageError, match="a function of yours"):
        place.world(lambda: elsewhere(endpoint=f"local:{place.folder}/f.py:f", name="local"))
    assert place.seen == []


def test_tidy_is_left_to_the_process_that_works(place: Place) -> None:
    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(place.carry_out)
            await anyio.sleep(5)
            with pytest.raises(LedgerBusyError, match="puts back their workers: pause or cancel the run"):
                await place.tidy()

    place.world(both)
    assert place.bounds == (0, 3)


class Raised(Forbidden):
    """The same, once somebody else has raised the bounds."""

    async def bounds(self, endpoint: str) -> Bounds:
        return Bounds(0, 10)


async def found_of(ledger: Path) -> tuple[Finding, ...]:
    """What `doctor` says of it, but for what services answer."""
    async with read_ledger(ledger, clock=SystemClock()) as opened:
        return findings(await facts_of(opened, None))


def test_after_a_kill_status_and_doctor_say_what_is_paid_and_until_it_is_put_back_only(place: Place) -> None:
    killed(place)
    [raised] = anyio.run(latest, place.folder / "db", None).raised_workers
    assert (raised.endpoint, raised.before, raised.raised) == (place.endpoint, Bounds(0, 3), Bounds(0, 10))
    [found] = [each for each in anyio.run(found_of, place.folder / "db") if each.cause is Cause.WORKERS_RAISED]
    assert found.about == place.endpoint
    assert "has 0 to 10 workers instead of 0 to 3" in found.sentence
    assert found.advice.startswith("orchestrator runs tidy")
    place.world(place.tidy)
    assert anyio.run(latest, place.folder / "db", None).raised_workers == []
    assert Cause.WORKERS_RAISED not in {each.cause for each in anyio.run(found_of, place.folder / "db")}


def test_what_cannot_be_put_back_is_said_and_kept(place: Place) -> None:
    killed(place)
    place.more["account"] = Raised
    [found] = place.world(place.tidy)
    assert not found.is_put_back
    assert "could not be put back" in found.outcome
    del place.more["account"]
    [found] = place.world(place.tidy)
    assert (found.is_put_back, place.bounds) == (True, (0, 3))


def test_an_endpoint_that_is_gone_needs_nothing(place: Place) -> None:
    killed(place)
    place.emulator.account.endpoints.delete(place.endpoint, place.clock.now())
    [found] = place.world(place.tidy)
    assert (found.is_put_back, found.outcome, found.now) == (True, "the endpoint is gone", None)
