"""Who started a run may be told of its end, and of what has stopped it: once, whatever is killed meanwhile."""

import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.run import run
from orchestrator.api.messages.message_senders import MessageSender
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.client.http.posts import post_notification
from orchestrator.core.gates.brake_gates import MaxFailures
from orchestrator.core.gates.failure_breaker import OFF
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import StoppedError
from orchestrator.ledger import IntakeRight, command_ledger
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.views.status import Summary
from tests.api.flows.test_notifications import Receiver
from tests.api.flows.test_stages import Killing
from tests.api.runs.test_program import request_in, surroundings
from tests.engine.hosting.test_continued import Desk, desk_in
from tests.engine.rows import empty_ledger
from tests.simulation.clock import VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import run as run_to_end
from tests.simulation.run import run_until_crash
from tests.simulation.world import ENDPOINT, SimulatedService
from tests.simulation.world import URL as SERVICE

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

URL = "https://hooks.example/T0/very-secret-path"
TELLS = RunSettings(breaker=OFF, notify="env:HOOK", max_attempts=1)


def around(desk: Desk, receiver: Receiver, **environ: str) -> Dependencies:
    hook = partial(post_notification, transport=receiver)
    return replace(surroundings(desk.service, desk.clock), post_hook=hook, environ={"HOOK": URL, **environ})


async def carried_out(desk: Desk, receiver: Receiver, settings: RunSettings = TELLS, **changes: Any) -> Summary:
    request = replace(request_in(desk.folder, 3), settings=settings, **changes)
    return await run(request, desk.console, around(desk, receiver))


async def messages(desk: Desk) -> list[RunMessage]:
    path = desk.folder / "ledger.db"
    async with command_ledger(path, clock=desk.clock, connect=async_creator(path)) as ledger:
        return await ledger.flows.run_outbox.of(1)


async def test_the_end_of_a_run_is_told_once_and_the_next_one_too(tmp_path: Path) -> None:
    receiver = Receiver()
    async with desk_in(tmp_path) as desk:
        await carried_out(desk, receiver)
        await carried_out(desk, receiver)  # nothing is new
        assert [body["type"] for body in receiver.bodies] == ["run.done"]
        assert receiver.bodies[0]["data"] == {
            "run": "in", "rows": 3, "succeeded": 3, "failed": 0, "cancelled": 0,
            "commands": [f"orchestrator runs show --ledger {tmp_path}/ledger.db in"],
        }  # fmt: skip
        assert receiver.got[0].url == URL
        await run(replace(request_in(tmp_path, 4), settings=TELLS), desk.console, around(desk, receiver))
    assert [body["data"]["rows"] for body in receiver.bodies] == [3, 4]
    assert len(set(receiver.ids)) == 2
    assert b"very-secret" not in (tmp_path / "ledger.db").read_bytes()


async def test_rows_that_failed_are_told_of_with_what_to_type(tmp_path: Path) -> None:
    receiver = Receiver()
    async with desk_in(tmp_path, work=lambda *_: WorkerResult(error="no")) as desk:
        await carried_out(desk, receiver)
    [told] = receiver.bodies
    assert (told["type"], told["data"]["failed"]) == ("run.failed", 3)
    assert f"orchestrator retry --ledger {tmp_path}/ledger.db in" in told["data"]["commands"]


async def test_who_does_not_answer_is_told_later_by_the_next_process_under_the_same_id(tmp_path: Path) -> None:
    deaf, receiver = Receiver(then=500), Receiver()
    async with desk_in(tmp_path) as desk:
        await carried_out(desk, deaf)
        [owed] = await messages(desk)
        assert (owed.news, owed.taken_at, owed.problem) == (RunNews.DONE, None, "hooks.example answered 500")
        assert [line for line in desk.console.lines if "nobody could be told that it is done" in line]
        await anyio.sleep(60)
        await carried_out(desk, receiver)
        [told] = await messages(desk)
    assert told.taken_at is not None
    assert set(deaf.ids) == set(receiver.ids)


async def test_what_has_stopped_a_run_is_told_once_until_it_has_gone_on(tmp_path: Path) -> None:
    receiver = Receiver()
    async with desk_in(tmp_path) as desk:
        for _ in range(2):
            with pytest.raises(StoppedError):
                await carried_out(desk, receiver, endpoint=f"{ENDPOINT}x")
        [told] = receiver.bodies
        assert (told["type"], told["data"]["unfinished"]) == ("run.stopped", 3)
        assert "404" in told["data"]["why"]
        assert told["data"]["commands"][-1] == f"orchestrator resume --ledger {tmp_path}/ledger.db in"


async def test_a_brake_that_stops_a_run_is_told_of(tmp_path: Path) -> None:
    receiver = Receiver()
    settings = replace(TELLS, max_failures=MaxFailures(rows=0), queue_depth=1)
    async with desk_in(tmp_path, work=lambda *_: WorkerResult(error="no"), workers=1) as desk:
        with pytest.raises(StoppedError):
            await carried_out(desk, receiver, settings)
    [told] = receiver.bodies
    assert told["type"] == "run.held"
    assert f"orchestrator unpause --ledger {tmp_path}/ledger.db in" in told["data"]["commands"]


async def test_a_program_s_run_is_told_of_once_its_inputs_were_read_and_not_before(tmp_path: Path) -> None:
    receiver = Receiver()

    async def slowly() -> AsyncIterator[dict[str, int]]:
        for n in range(3):
            yield {"n": n}
            await anyio.sleep(30)

    async with desk_in(tmp_path) as desk:
        program = Orchestrator(
            tmp_path / "ledger.db", serverless_url=SERVICE, api_key="key", _dependencies=around(desk, receiver)
        )
        async with program as orc:
            results = orc.map(ENDPOINT, slowly(), name="in", notify="env:HOOK")
            assert [result.output["n"] async for result in results] == [0, 1, 2]
            await anyio.sleep(10)
            await (await orc.submit([{"n": 3}], endpoint=ENDPOINT, name="in")).wait()
            await anyio.sleep(10)
    assert [(body["type"], body["data"]["rows"]) for body in receiver.bodies] == [("run.done", 3), ("run.done", 4)]


# --- crashes


async def life(folder: Path, receiver: Receiver, clock: VirtualClock, killing: Killing) -> None:
    """A run of two rows that ends, and one that is stopped, in one process after the other."""
    service = SimulatedService(clock)
    async with service.serving():
        given = replace(
            surroundings(service, clock),
            post_hook=partial(post_notification, transport=receiver),
            environ={"HOOK": URL},
            connect=lambda found: async_creator(found, commits=killing),
            intake_lock=lambda _ledger, _run, *, now: nullcontext(
                IntakeRight()
            ),  # a simulated crash would leave it held
            lock=lambda _ledger, *, now, doing="": nullcontext(),
        )
        request = replace(request_in(folder, 2), settings=TELLS, output=None, errors=None)
        with pytest.raises(StoppedError):
            await run(replace(request, name="stopped", endpoint=f"{ENDPOINT}x"), SilentConsole(), given)
        await run(request, SilentConsole(), given)


def lived(folder: Path, receiver: Receiver, killing: Killing) -> bool:
    """Two lives, the second after a crash; whether there was one."""
    folder.mkdir()
    empty_ledger(folder / "ledger.db")
    clock = VirtualClock()
    crashed_at_s = run_until_crash(partial(life, folder, receiver, clock, killing))
    if crashed_at_s is None:
        return False
    killing.arm(0, after=False)
    run_to_end(partial(life, folder, receiver, clock, killing), start_s=crashed_at_s)
    return True


def told_by_name(receiver: Receiver) -> dict[str, set[str]]:
    """The ids under which each was told, by what it says."""
    found: dict[str, set[str]] = {}
    for body, number in zip(receiver.bodies, receiver.ids, strict=True):
        found.setdefault(f"{body['data']['run']} {body['type']}", set()).add(number)
    return found


@pytest.mark.parametrize("message", [1, 2], ids=["a fact", "an end"])
def test_killed_between_sending_and_noting_it_is_sent_again_with_the_same_id(tmp_path: Path, message: int) -> None:
    receiver, killing = Receiver(), Killing()
    receiver.hear = lambda: killing.arm(1 if len(receiver.got) == message else 0, after=False)
    assert lived(tmp_path / "world", receiver, killing)
    assert len(receiver.got) == 3
    assert {what: len(ids) for what, ids in told_by_name(receiver).items()} == {
        "stopped run.stopped": 1,
        "in run.done": 1,
    }
    assert receiver.ids[message - 1] == receiver.ids[message]


@pytest.mark.slow
def test_killed_at_a_commit_each_fact_is_owed_with_its_news_and_told_under_one_id(tmp_path: Path) -> None:
    """Every seventh one is met, half of them before and half of them after."""
    worlds = 0
    for commit in range(1, 10_000, 7):
        receiver, killing = Receiver(), Killing()
        killing.arm(commit, after=commit % 2 == 1)
        if not lived(tmp_path / str(commit), receiver, killing):
            break
        worlds += 1
        told = told_by_name(receiver)
        assert set(told) == {"stopped run.stopped", "in run.done"}, commit
        assert all(len(ids) == 1 for ids in told.values()), commit
    assert worlds > 2


async def told_to(tmp_path: Path, notify: str | None, **environ: str) -> str | None:
    settings = b"{}" if notify is None else json.dumps({"notify": notify}).encode()
    message = RunMessage(
        id=1, run=1, name="in", settings=settings, news=RunNews.DONE, body=b'{"type":"run.done","data":{"commands":[]}}', owed_at=0, due_at=0,
        tries=0, taken_at=None, given_up_at=None, problem="", target="",
    )  # fmt: skip
    dependencies = Dependencies(environ={"PATH": "/usr/bin:/bin", **environ})
    sender = MessageSender(tmp_path / "ledger.db", ConnectionSettings(), dependencies)
    return (await sender.tell_of_run(message)).problem


async def test_a_command_gets_it_on_its_input_in_the_folder_of_the_ledger(tmp_path: Path) -> None:
    assert await told_to(tmp_path, "sh -c 'cat > told; echo $ORCHESTRATOR_RUN > name'") is None
    assert (tmp_path / "told").read_bytes() == b'{"type":"run.done","data":{"commands":[]}}\n'
    assert (tmp_path / "name").read_text() == "in\n"
    assert "3" in str(await told_to(tmp_path, "sh -c 'exit 3'"))


async def test_why_it_cannot_be_sent_names_no_secret(tmp_path: Path) -> None:
    assert await told_to(tmp_path, "env:HOOK") == "HOOK is not set in the environment of this process"
    assert await told_to(tmp_path, "env:HOOK", HOOK="a-secret") == "HOOK, which is to hold a URL, holds none"
    assert await told_to(tmp_path, None) == "the run tells nobody any more"
