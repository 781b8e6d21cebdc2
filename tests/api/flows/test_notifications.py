"""What people are told of flows and schedules: each once at least, by whoever works next, whatever the receiver does."""

import base64
import hashlib
import hmac
import json
import os
import select
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from msgspec.structs import replace

from orchestrator.api.flows.flows import flow_show
from orchestrator.api.flows.schedules import schedules_check, schedules_history
from orchestrator.api.messages.message_senders import piped
from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import News, Notify, Pipeline, Schedule
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.flows.pipelines import Defined
from orchestrator.units import HOUR_US, MINUTE_US, SECOND_US
from tests.api.flows.test_stages import Killing
from tests.engine.flowing import Flowing, a_pipeline, accepting, completing, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.database import async_creator
from tests.simulation.run import run, run_until_crash

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

URL = "https://hooks.example/T0/very-secret-path"
KEY = b"0123456789abcdef0123456789abcdef"
SECRET = "whsec_" + base64.b64encode(KEY).decode()
ENVIRON = {"HOOK_SECRET": SECRET}
FLOW = "p@20260101T000000Z"

Answer = int | Exception | Callable[[], Awaitable[httpx.Response]]


class Receiver(httpx.AsyncBaseTransport):
    """Answers as it is told, and from then on 204; notes what it got."""

    def __init__(self, *answers: Answer, then: Answer = 204) -> None:
        self.got: list[httpx.Request] = []
        self._answers, self._then = list(answers), then
        self.hear: Callable[[], None] = lambda: None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.got.append(request)
        self.hear()
        answer = self._answers.pop(0) if self._answers else self._then
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer) if isinstance(answer, int) else await answer()

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(request.content) for request in self.got]

    @property
    def ids(self) -> list[str]:
        return [request.headers["webhook-id"] for request in self.got]


def telling(pipeline: Pipeline, *on: News, **notify: Any) -> Pipeline:
    given = {"url": URL, "secret": "env:HOOK_SECRET"} if "command" not in notify else {}
    return replace(pipeline, notify=Notify(on=on, **{**given, **notify}))


async def triggered(p: Flowing, pipeline: Pipeline) -> Defined:
    of = await applied(p.ledger, pipeline, now=p.ledger.now())
    await p.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT], FlowKind.TRIGGERED)
    p.scheduler.on_change()
    return of


def failing(*rows: int) -> Scripted:
    """A service at which these rows fail."""
    taken: dict[str, int] = {}

    def run(asked: Asked) -> Reply:
        remote = f"r-{len(taken)}"
        taken[remote] = json.loads(asked.body)["input"]["n"]
        return says("IN_QUEUE", remote)

    def status(asked: Asked) -> Reply:
        if taken[asked.remote_id] in rows:
            return says("FAILED", asked.remote_id, error="no")
        return says("COMPLETED", asked.remote_id, output="an output")

    return Scripted(run=run, status=status)


def endless() -> Scripted:
    return Scripted(run=accepting(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))


HOURLY = every(1)
SERVICES: dict[News, Callable[[], Scripted]] = {
    News.PARTIAL: lambda: failing(1),
    News.FAILED: lambda: failing(1, 2),
    News.ON_HOLD: endless,
    News.LATE: endless,
    News.PAUSED: lambda: failing(1, 2),
}
SCHEDULES: dict[News, Schedule] = {
    News.LATE: replace(HOURLY, late_after_us=MINUTE_US),
    News.MISSED: replace(HOURLY, catch_up_us=HOUR_US),
    News.PAUSED: replace(HOURLY, pause_after_failures=1),
}


async def caused(p: Flowing, pipelines: Sequence[Pipeline], news: News) -> None:
    """Has that happen to each of them."""
    since = EPOCH_AT - 5 * HOUR_US - 1 if news is News.MISSED else EPOCH_AT - SECOND_US
    for pipeline in pipelines:
        await applied(p.ledger, pipeline, now=since)
    p.scheduler.on_change()
    await anyio.sleep(20)
    if news is News.ON_HOLD:
        for flow in await p.ledger.flows.live():
            assert await p.ledger.flows.pause(flow.id, "looked at")
        p.scheduler.on_change()
    await anyio.sleep(100 if news is News.LATE else 10)


@pytest.mark.parametrize("news", [news for news in News if news is not News.ABANDONED])
async def test_each_news_is_told_once_it_happens_to_a_url_and_to_a_command(tmp_path: Path, news: News) -> None:
    receiver, transport = Receiver(), SERVICES.get(news, completing)()
    schedule = SCHEDULES.get(news, HOURLY)
    command = ("sh", "-c", "cat >> told.jsonl; echo $ORCHESTRATOR_FLOW >> flows")
    by_url = telling(a_pipeline(tmp_path, schedule), news)
    by_command = telling(a_pipeline(tmp_path, schedule, name="q"), news, command=command)
    async with flowing(tmp_path, transport=transport, environ={**os.environ, **ENVIRON}, receiver=receiver) as p:
        await caused(p, [by_url, by_command], news)
        assert "could be told" not in "".join(p.warnings)
    assert [is_signed(request) for request in receiver.got] == [True]
    [posted] = receiver.bodies
    [piped] = map(json.loads, (tmp_path / "told.jsonl").read_text().splitlines())
    assert (tmp_path / "flows").read_text().splitlines() == [piped["data"].get("flow", "")]
    for name, told in (("p", posted), ("q", piped)):
        assert told["type"].partition(".")[2] == news
        assert "an output" not in json.dumps(told)
        data = told["data"]
        assert data["pipeline"] == name
        if news in (News.MISSED, News.PAUSED):
            assert told["type"].startswith("schedule.")
        else:
            assert (told["type"], data["flow"]) == (f"flow.{news}", FLOW.replace("p@", f"{name}@"))
            assert [stage["rows"] for stage in data["stages"]] == ([] if news is News.STARTED else [2])


def is_signed(request: httpx.Request) -> bool:
    """As a receiver would look at it, by the standard alone."""
    sent = request.headers
    signed = f"{sent['webhook-id']}.{sent['webhook-timestamp']}.".encode() + request.content
    expected = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    return bool(sent["webhook-signature"] == f"v1,{expected}")


async def test_what_a_pipeline_does_not_tell_of_is_not_told(tmp_path: Path) -> None:
    receiver = Receiver()
    others = [news for news in News if news not in (News.STARTED, News.DONE)]
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON) as p:
        await triggered(p, telling(a_pipeline(tmp_path), *others))
        await p.idle()
        await p.scheduler.notifier.until_idle()
        assert await p.states() == {FLOW: "succeeded"}
    assert receiver.got == []


async def hanging() -> httpx.Response:
    await anyio.sleep(10**6)
    return httpx.Response(204)


async def with_html() -> httpx.Response:
    return httpx.Response(502, html="<html>very sorry</html>")


async def elsewhere() -> httpx.Response:
    return httpx.Response(302, headers={"Location": "https://elsewhere.example/"})


async def slow() -> httpx.Response:
    """Just within its time."""
    await anyio.sleep(19)
    return httpx.Response(204)


@pytest.mark.slow
async def test_a_receiver_in_trouble_is_told_again_under_the_same_id_until_it_takes_it(tmp_path: Path) -> None:
    cut_off = httpx.ReadError("reset")  # it may have taken it, and is told once more
    receiver = Receiver(httpx.ConnectError("no"), hanging, 500, with_html, elsewhere, 429, cut_off, slow)
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON) as p:
        await triggered(p, telling(a_pipeline(tmp_path)))
        await p.idle()
        flow, problems = await p.flow(FLOW), list[str]()
        for _ in range(3_000):
            await anyio.sleep(2)
            [told] = await p.ledger.flows.outbox.of_flow(flow.id)
            if told.problem and told.tries > len(problems):
                problems.append(told.problem)
            if told.taken_at is not None or len(problems) == 7:
                break
        assert problems == [
            "no connection to hooks.example: ConnectError",
            "no complete answer within 20 s",
            "hooks.example answered 500",
            "hooks.example answered 502",
            "hooks.example answered 302, and redirects are not followed: write the address that it leads to",
            "hooks.example answered 429",
            "the connection gave no complete answer: ReadError",
        ]
        await anyio.sleep(1_200)
        [told] = await p.ledger.flows.outbox.of_flow(flow.id)
        assert (told.taken_at is not None, told.tries, told.problem) == (True, 8, "")
    assert len(receiver.got) == 8
    assert len(set(receiver.ids)) == len({request.content for request in receiver.got}) == 1
    assert all(map(is_signed, receiver.got))
    times = [int(request.headers["webhook-timestamp"]) for request in receiver.got]
    assert times == sorted(times)
    assert {request.url.host for request in receiver.got} == {"hooks.example"}
    assert not any("very-secret" in line for line in p.warnings)


async def test_what_nobody_takes_for_a_day_is_given_up_and_said_so(tmp_path: Path) -> None:
    receiver, clock = Receiver(then=500), VirtualClock()
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON, clock=clock) as p:
        await triggered(p, telling(a_pipeline(tmp_path)))
        await p.idle()
        clock.jump(23 * HOUR_US)
        await anyio.sleep(61)
        before = len(receiver.got)
        reading = Dependencies(clock=clock, connect=async_creator)
        ledger = tmp_path / "l.db"
        [trouble] = await schedules_check(ledger, dependencies=reading)
        assert (trouble.kind, trouble.text) == (
            "untold",
            "1 notification could not be sent: hooks.example answered 500",
        )
        clock.jump(2 * HOUR_US)
        await anyio.sleep(61)
        assert len(receiver.got) == before + 1
        assert len(p.warnings) == 2
        assert "it is tried again" in p.warnings[0]
        assert "it is given up" in p.warnings[1]
        [shown] = (await flow_show(ledger, FLOW, reading)).notifications
        assert (shown.news, shown.taken_at, shown.given_up_at is not None) == (News.DONE, None, True)
        [row] = [row for row in await schedules_history(ledger, "p", 9, reading) if "told" in row.what]
        assert (row.what, row.flow, row.why) == ("done not told", FLOW, "given up: hooks.example answered 500")
        assert await schedules_check(ledger, dependencies=reading) != []
        assert await p.ledger.flows.outbox.count_owed() == 0, "it was given up"
        assert [await p.ledger.flows.outbox.count_untold(clock.now() - hours * HOUR_US) for hours in (24, 0)] == [1, 0]
        clock.jump(25 * HOUR_US)
        assert await schedules_check(ledger, dependencies=reading) == []


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({}, "HOOK_SECRET is not set in the environment of this process"),
        ({"HOOK_SECRET": "hunter2-hunter2"}, "HOOK_SECRET: its value is no secret of Standard Webhooks"),
    ],
)
async def test_without_its_secret_it_waits_and_whoever_has_it_sends_it(
    tmp_path: Path, environ: dict[str, str], why: str
) -> None:
    receiver, clock = Receiver(), VirtualClock()
    async with flowing(tmp_path, receiver=receiver, environ=environ, clock=clock) as p:
        await triggered(p, telling(a_pipeline(tmp_path)))
        await p.idle()
        await p.scheduler.notifier.until_idle()
        [told] = await p.ledger.flows.outbox.of_flow((await p.flow(FLOW)).id)
        assert why in told.problem
        assert "hunter2" not in f"{told.problem}{p.warnings}"
    assert receiver.got == []
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON, clock=clock) as p:
        await anyio.sleep(120)
    assert [is_signed(request) for request in receiver.got] == [True]
    assert not written(tmp_path, KEY)
    assert not written(tmp_path, SECRET.encode())


def written(folder: Path, secret: bytes) -> bool:
    return any(secret in file.read_bytes() for file in folder.glob("l.db*"))


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="of Linux")
async def test_a_command_that_hangs_is_ended_with_what_it_has_begun(tmp_path: Path) -> None:
    command = ("sh", "-c", "sleep 600 & echo $! > pid; sleep 600")
    pipeline = telling(a_pipeline(tmp_path), command=command)
    async with flowing(tmp_path) as p:
        await triggered(p, telling(pipeline, command=("false",)))
        await p.idle()
        await p.scheduler.notifier.until_idle()
        [told] = await p.ledger.flows.outbox.of_flow((await p.flow(FLOW)).id)
    came = await piped(told, pipeline, told.body, os.environ, within_s=1)
    assert came.problem == "the command sh did not end within 1 s"
    assert ends(int((tmp_path / "pid").read_text()))


def ends(pid: int) -> bool:
    """Waits for a process that was killed."""
    try:
        process = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return select.select([process], [], [], 20)[0] == [process]
    finally:
        os.close(process)


async def test_a_command_that_fails_or_is_not_there_is_begun_again(tmp_path: Path) -> None:
    command = ("./tell.sh",)
    async with flowing(tmp_path) as p:
        await triggered(p, telling(a_pipeline(tmp_path), command=command))
        await p.idle()
        await p.scheduler.notifier.until_idle()
        flow = await p.flow(FLOW)
        assert (await p.ledger.flows.outbox.of_flow(flow.id))[0].problem.startswith(
            "the command ./tell.sh cannot be run (No"
        )
        script = tmp_path / "tell.sh"
        script.write_text("#!/bin/sh\necho the mail server is away >&2\nexit 75\n")
        script.chmod(0o755)
        await anyio.sleep(6)
        await p.scheduler.notifier.until_idle()
        [told] = await p.ledger.flows.outbox.of_flow(flow.id)
        assert told.problem == "the command ./tell.sh has ended with exit code 75: the mail server is away"
        script.write_text("#!/bin/sh\nexit 0\n")
        await anyio.sleep(60)
        assert (await p.ledger.flows.outbox.of_flow(flow.id))[0].taken_at is not None


async def test_a_mended_address_gets_what_waits_and_who_tells_nobody_any_more_gives_up(tmp_path: Path) -> None:
    receiver = Receiver(500, 500)
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON) as p:
        pipeline = telling(a_pipeline(tmp_path))
        await triggered(p, pipeline)
        await p.idle()
        await p.scheduler.notifier.until_idle()
        await applied(p.ledger, telling(pipeline, url="https://mended.example/"), now=p.ledger.now())
        await anyio.sleep(6)
        await applied(p.ledger, replace(pipeline, notify=None), now=p.ledger.now())
        await anyio.sleep(60)
        [told] = await p.ledger.flows.outbox.of_flow((await p.flow(FLOW)).id)
        assert told.given_up_at is not None
        assert told.problem == "its pipeline tells nobody any more"
    assert [request.url.host for request in receiver.got] == ["hooks.example", "mended.example"]


async def test_one_receiver_that_hangs_keeps_no_other_pipeline_waiting(tmp_path: Path) -> None:
    receiver = Receiver(hanging)
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON) as p:
        for name in ("p", "q"):
            pipeline = telling(a_pipeline(tmp_path, name=name))
            of = await applied(p.ledger, pipeline, now=p.ledger.now())
            await p.ledger.flows.add(of.id, name, of.definition, [EPOCH_AT], FlowKind.TRIGGERED)
        p.scheduler.on_change()
        await p.idle()
        await anyio.sleep(5)
        assert sorted(body["data"]["pipeline"] for body in receiver.bodies) == ["p", "q"]
        [(p_told, q_told)] = [[(await p.ledger.flows.outbox.of_flow(n))[0].taken_at for n in (1, 2)]]
        assert [p_told is None, q_told is None].count(True) == 1


async def test_who_only_works_on_a_run_sends_nothing_before_a_tick_hands_over(tmp_path: Path) -> None:
    receiver, clock = Receiver(500), VirtualClock()
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON, clock=clock) as p:
        await triggered(p, telling(a_pipeline(tmp_path)))
        await p.idle()
        await p.scheduler.notifier.until_idle()
    async with flowing(tmp_path, receiver=receiver, environ=ENVIRON, clock=clock, firing=Firing.HANDED_OVER) as p:
        await anyio.sleep(600)
        await p.scheduler.notifier.until_idle()
        assert len(receiver.got) == 1
        p.scheduler.tick()
        await anyio.sleep(1)
        assert len(receiver.got) == 2


# --- crashes


async def life(folder: Path, receiver: Receiver, clock: VirtualClock, killing: Killing) -> None:
    async with flowing(folder, receiver=receiver, environ=ENVIRON, clock=clock, commits=killing) as p:
        if not await p.ledger.flows.latest(1):
            await triggered(p, telling(a_pipeline(folder)))
        p.scheduler.on_change()
        await p.idle()
        await p.scheduler.notifier.until_idle()
        assert await p.states() == {FLOW: "succeeded"}
        flow = await p.flow(FLOW)
        assert [told.taken_at is not None for told in await p.ledger.flows.outbox.of_flow(flow.id)] == [True]


def lived(folder: Path, receiver: Receiver, killing: Killing) -> bool:
    """Two lives, the second after a crash; whether there was one."""
    folder.mkdir()
    clock = VirtualClock()
    crashed_at_s = run_until_crash(partial(life, folder, receiver, clock, killing))
    if crashed_at_s is None:
        return False
    killing.arm(0, after=False)
    run(partial(life, folder, receiver, clock, killing), start_s=crashed_at_s)
    return True


def test_killed_between_sending_and_noting_it_is_sent_again_with_the_same_id(tmp_path: Path) -> None:
    receiver, killing = Receiver(), Killing()
    receiver.hear = lambda: killing.arm(1 if len(receiver.got) == 1 else 0, after=False)
    assert lived(tmp_path / "world", receiver, killing)
    assert len(receiver.got) == 2
    assert receiver.ids[0] == receiver.ids[1]
    assert receiver.got[0].content == receiver.got[1].content


@pytest.mark.slow
def test_killed_at_a_commit_each_news_is_owed_once(tmp_path: Path) -> None:
    """Every fifth one is met, half of them before and half of them after."""
    worlds: list[Sequence[str]] = []
    for commit in range(1, 10_000, 5):
        receiver, killing = Receiver(), Killing()
        killing.arm(commit, after=commit % 2 == 1)
        if not lived(tmp_path / str(commit), receiver, killing):
            break
        worlds.append(receiver.ids)
    assert len(worlds) > 2
    assert all(len(set(ids)) == 1 for ids in worlds)
