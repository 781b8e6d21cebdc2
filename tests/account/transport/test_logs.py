"""`account.pods.logs` at streams of every kind, and at the emulator, on virtual time."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import anyio
import httpx
import pytest

from orchestrator.account import Account, AnswerError, LogLine, ProblemError, UsageError
from orchestrator.account.transport.logs import LINE_BYTES_MAX
from orchestrator.client import Service
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.contract.faults import Faults
from orchestrator.errors import Unanswered
from tests.account.pods.test_pods import SPEC
from tests.client.event_streams import Live, Step, Streams
from tests.emulator.pod_service import KEY, PodService
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CUT = httpx.ReadError("cut")
ENDLESS = 1e9
BEAT = b":\n\n"


def event(number: int, line: str = "") -> bytes:
    text = line or f"line {number}"
    return b'id: 2026/%03d\ndata: {"source":"container","line":"%b","ts":"t%d"}\n\n' % (number, text.encode(), number)


def record(status: str) -> httpx.Response:
    return httpx.Response(200, json={"id": "p1", "name": "n", "status": status})


class Reading:
    """What came of reading a log: the lines, the requests, and how long it took."""

    def __init__(self, *answers: Sequence[Step] | httpx.Response) -> None:
        self.streams = Streams(*answers)
        self.lines: list[LogLine] = []
        self.took_s = 0.0

    async def __call__(self, **asked: Any) -> "Reading":
        began_s = anyio.current_time()
        service = Service("http://jobs", KEY, VirtualClock(), transport=self.streams)
        try:
            await Account(service, base_url="http://rest").pods.logs("p1", self.lines.append, **asked)
        finally:
            self.took_s = round(anyio.current_time() - began_s, 3)
            await service.aclose()
        return self

    @property
    def said(self) -> list[str]:
        return [line.line for line in self.lines]

    @property
    def last_ids(self) -> list[str | None]:
        return [request.headers.get("last-event-id") for request in self.streams.requests]


async def test_what_is_there_is_read_until_nothing_more_comes_for_a_while() -> None:
    """Not in the contract: `GET /v2/pods/{id}/logs`."""
    steps: list[Step] = [2.5, event(1) + event(2)[:9], 2.5, event(2)[9:], BEAT, 2.0, BEAT, ENDLESS]
    reading = await Reading(steps)()
    assert reading.lines[0] == LogLine(id="2026/001", ts="t1", source="container", line="line 1")
    assert (reading.said, reading.took_s) == (["line 1", "line 2"], 8.0)
    [request] = reading.streams.requests
    assert (str(request.url), request.headers["accept"]) == (
        "http://rest/v2/pods/p1/logs?tail=100",
        "text/event-stream",
    )
    nothing = await Reading([ENDLESS])()
    assert (nothing.lines, nothing.took_s) == ([], 3.0)


async def test_the_last_of_the_lines_that_were_asked_for_ends_it_at_once() -> None:
    since = datetime(2026, 1, 1, tzinfo=UTC)
    reading = await Reading([event(1), event(2) + event(3), event(4), ENDLESS])(tail=2, since=since, source="container")
    assert (reading.said, reading.took_s) == (["line 1", "line 2"], 0.0)
    assert dict(reading.streams.requests[0].url.params) == {
        "tail": "2",
        "since": "2026-01-01T00:00:00Z",
        "source": "container",
    }


async def test_a_stream_that_was_cut_goes_on_behind_its_last_line_and_tells_each_line_once() -> None:
    """Also where the service sends again what it has sent."""
    broken: list[Step] = [event(1) + event(2) + event(3)[:-2], CUT]
    again: list[Step] = [event(2) + event(3), 1.0, b"id: 2026/009\n\n", CUT]
    reading = await Reading(broken, again, [event(4), ENDLESS])()
    assert reading.said == ["line 1", "line 2", "line 3", "line 4"]
    assert reading.last_ids == [None, "2026/002", "2026/009"]
    assert reading.took_s == 0.5 + 1 + 0.5 + 3


async def test_a_stream_lasts_as_long_as_anything_comes_and_is_dropped_by_a_minute_of_silence() -> None:
    beats = [step for _ in range(100) for step in (30.0, BEAT)]
    gone = httpx.Response(404, json={"title": "Not Found", "status": 404, "detail": "pod not found"})
    reading = await Reading([event(1), *beats, ENDLESS], [ENDLESS], gone)(follow=True)
    assert (reading.said, reading.last_ids) == (["line 1"], [None, "2026/001", "2026/001"])
    assert reading.took_s == pytest.approx(100 * 30 + 2 * 60 + 2, abs=5)


@pytest.mark.parametrize(("status", "requests"), [("EXITED", 2), ("RUNNING", 4)])
async def test_a_stream_that_the_service_ends_goes_on_unless_its_pod_has_ended(status: str, requests: int) -> None:
    gone = httpx.Response(404)
    reading = await Reading([event(1)], record(status), [event(2)], gone)(follow=True)
    assert (len(reading.said), len(reading.streams.requests)) == (requests // 2, requests)


@pytest.mark.parametrize(
    ("answer", "trouble"),
    [
        ([CUT], "pods logs p1: the connection gave no complete answer"),
        ([b"data: {"], "pods logs p1: the stream ended in the middle of a line"),
        (httpx.Response(503), r"pods logs p1: .*\(503 Service Unavailable\)"),
    ],
)
async def test_tries_that_bring_nothing_are_few(answer: Any, trouble: str) -> None:
    reading = Reading(answer)
    with pytest.raises((Unanswered, ProblemError), match=trouble):
        await reading()
    assert (len(reading.streams.requests), reading.took_s) == (4, 3.5)


async def test_what_is_refused_is_not_asked_for_again() -> None:
    reading = Reading(httpx.Response(404, json={"title": "Not Found", "status": 404, "detail": f"no pod, {KEY}"}))
    with pytest.raises(ProblemError, match=r"pods logs p1: .*\(404 Not Found: no pod, \[hidden\]\)"):
        await reading(follow=True)
    assert len(reading.streams.requests) == 1
    page = Reading(httpx.Response(200, content=b"<html>", headers={"content-type": "text/html"}))
    with pytest.raises(AnswerError, match="with something else than a stream of events"):
        await page()


async def test_lines_of_another_form_are_told_as_they_are_and_without_the_key() -> None:
    foreign = [
        b'data: {"line":7}\r\n\r\ndata: plain\n\nid: no header\ndata: [1]\n\n',
        b'event: x\ndata: {"line":"a\\nb",\ndata: "source":3,"more":1}\n\n',
        b'data: {"line":"my key is %b"}\n\n' % KEY.encode(),
    ]
    reading = await Reading([*foreign, CUT], [])(tail=9)
    assert reading.said == ['{"line":7}', "plain", "[1]", "a\nb", "my key is [hidden]"]
    assert reading.last_ids == [None, None]
    with pytest.raises(AnswerError, match="longer than"):
        await Reading([b"data: " + b"x" * LINE_BYTES_MAX])()


@pytest.mark.parametrize(
    "asked",
    [{"tail": 5001}, {"tail": -1}, {"tail": 0}, {"since": datetime(2026, 1, 1)}, {"source": "a b"}],  # noqa: DTZ001
)
async def test_what_no_service_takes_is_refused_before_anything_is_sent(asked: dict[str, Any]) -> None:
    reading = Reading([])
    with pytest.raises(UsageError, match="nothing was sent"):
        await reading(**asked)
    assert reading.streams.requests == []


@pytest.mark.parametrize("faults", [Faults(), Faults(cut_answer=0.4, half_answer=0.2, server_error=0.2)])
async def test_a_pods_life_is_followed_at_the_emulator_whatever_happens_to_the_connection(faults: Faults) -> None:
    emulated = PodService(PodSettings(provisioning_s=30, starting_s=15), clock=VirtualClock())
    lines: list[LogLine] = []
    async with anyio.create_task_group() as group:
        service = Service("http://jobs", KEY, emulated.clock, transport=Live(emulated.app, group))
        pods = Account(service, base_url="http://rest").pods
        pod = await pods.create(SPEC)
        emulated.dice.faults = faults

        async def live() -> None:
            for number in range(20):
                await anyio.sleep(7)
                emulated.world.print(pod.id, f"epoch {number}", emulated.clock.now())
            emulated.world.exit(pod.id, emulated.clock.now())

        group.start_soon(live)
        await pods.logs(pod.id, lines.append, tail=5000, follow=True)
        assert [line.line for line in lines if line.source == "container"] == [f"epoch {n}" for n in range(20)]
        assert [line.line for line in lines if line.source == "system"] == [
            "pod created with image img:1",
            "machine found; starting the container",
            "container started",
            "container stopped",
        ]
        assert lines[-1].ts == "2026-01-01T00:02:20.000Z"
        assert any(emulated.dice.counts().values()) is (faults != Faults())
        emulated.dice.faults = Faults()
        again: list[LogLine] = []
        await pods.logs(pod.id, again.append, tail=3, source="container")
        assert again == [line for line in lines if line.source == "container"][-3:]
        await service.aclose()
        group.cancel_scope.cancel()
