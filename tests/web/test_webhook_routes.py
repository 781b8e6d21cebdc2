"""Webhooks, sent straight to the application on virtual time."""

import logging
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx
import pytest
from hypothesis import given
from starlette.types import Message, Scope

from orchestrator.client.http.transfer_slots import LARGE_BYTES, TransferSlots
from orchestrator.core.limits.transfer_slots import AT_ONCE
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.webhook_token import KEY_BYTES, SELF_TESTS, Notice, self_test_answer, token
from orchestrator.errors import OrchestratorError, StorageError
from orchestrator.web.application import listener_application
from orchestrator.web.listener_connection import WHOLE_BODY
from orchestrator.web.webhook_routes import DEFAULT_LIMITS, WAITING_MAX, BodyLimits, WebhookCounters, Webhooks
from tests.texts import texts
from tests.web.requests import BODY, KEY, RECORD, Sink, StillClock, forever, hook

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NOTED = Notice(submission=7, received_at=1_000_000, record=RECORD)
HINT = Notice(submission=7, received_at=1_000_000, record=None)
OF_ANOTHER = Notice(submission=7, received_at=1_000_000, record=Record(remote_id=None, status="", is_misnamed=True))


class World:
    """The application with its sink, and a client that speaks to it in-process."""

    def __init__(self, *, prefix: str = "", limits: BodyLimits = DEFAULT_LIMITS) -> None:
        self.sink = Sink()
        self.clock = StillClock()
        self.webhooks = Webhooks(key=KEY, sink=self.sink, clock=self.clock, prefix=prefix, limits=limits)
        self.app = listener_application(self.webhooks)

    @property
    def figures(self) -> WebhookCounters:
        return self.webhooks.figures

    async def send(self, path: str, body: bytes | AsyncIterator[bytes] = BODY, method: str = "POST") -> httpx.Response:
        transport = httpx.ASGITransport(self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://listener") as client:
            return await client.request(method, path, content=body)

    async def raw(
        self, path: str, *messages: Message, method: str = "POST", headers: Any = (), **more: Any
    ) -> "Exchange":
        """A request exactly as given: the path untouched, the body in these messages."""
        exchange = Exchange(messages)
        scope: Scope = {"type": "http", "method": method, "path": path, "headers": list(headers), "query_string": b""}
        scope.update(more)
        await self.app(scope, exchange.receive, exchange.send)
        return exchange


class Exchange:
    def __init__(self, messages: tuple[Message, ...]) -> None:
        self._messages = list(messages)
        self.reads = 0
        self.sent: list[Message] = []

    async def receive(self) -> Message:
        self.reads += 1
        return self._messages.pop(0)

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def chunk(body: bytes, *, more: bool = False) -> Message:
    return {"type": "http.request", "body": body, "more_body": more}


# --- a self-test -----------------------------------------------------------------------------------------------------


async def test_a_self_test_is_answered_by_the_key_and_nothing_is_noted() -> None:
    world, number = World(prefix="/a"), SELF_TESTS.start + 5
    for path in (f"/hooks/{token(KEY, number)}", f"/a/hooks/{token(KEY, number)}"):
        response = await world.send(path)
        assert (response.status_code, response.text) == (200, self_test_answer(KEY, number))
    assert (await world.send(f"/hooks/{token(KEY[::-1], number)}")).status_code == 404
    assert world.sink.notices == []
    assert (world.figures.received, world.figures.refused) == (0, 1)


# --- with a valid token ----------------------------------------------------------------------------------------------


async def test_a_webhook_is_answered_200_once_it_is_noted_with_its_record_only() -> None:
    world = World()
    response = await world.send(hook())

    assert (response.status_code, response.content) == (200, b"")
    assert world.sink.notices == [NOTED]
    assert world.figures == WebhookCounters(received=1)


async def test_no_answer_is_given_before_the_notice_is_durable() -> None:
    world = World()
    world.sink.close_gate()
    exchange = Exchange((chunk(BODY),))
    scope: Scope = {"type": "http", "method": "POST", "path": hook(), "headers": []}

    async def ask() -> None:
        await world.app(scope, exchange.receive, exchange.send)

    async with anyio.create_task_group() as group:
        group.start_soon(ask)
        await world.sink.entered.wait()
        await anyio.wait_all_tasks_blocked()
        assert exchange.sent == []
        world.sink.gate.set()

    assert exchange.sent[0]["status"] == 200


async def test_a_webhook_behind_a_byte_order_mark_is_the_same_news() -> None:
    world = World()
    await world.send(hook(), b"\xef\xbb\xbf" + BODY)
    assert world.sink.notices == [NOTED]


async def test_a_repeated_webhook_is_handed_on_and_answered_200_again() -> None:
    world = World()

    assert [(await world.send(hook())).status_code for _ in range(3)] == [200, 200, 200]
    assert world.sink.notices == [NOTED] * 3


@pytest.mark.parametrize("error", [StorageError(), OrchestratorError("disk full")])
async def test_a_notice_that_cannot_be_made_durable_is_answered_503_and_may_come_again(error: Exception) -> None:
    world = World()
    world.sink.error = error
    response = await world.send(hook())

    assert (response.status_code, response.content) == (503, b"")
    assert world.figures == WebhookCounters(received=1, unavailable=1)

    world.sink.error = None
    assert (await world.send(hook())).status_code == 200


async def test_the_time_of_a_notice_is_when_its_body_had_come() -> None:
    world = World()

    async def late() -> AsyncIterator[bytes]:
        world.clock.now_at = 5_000_000
        yield BODY

    await world.send(hook(), late())

    assert world.sink.notices[0].received_at == 5_000_000


async def test_a_body_in_pieces_is_put_together() -> None:
    world = World()
    await world.raw(hook(), *[chunk(BODY[i : i + 10], more=True) for i in range(0, len(BODY), 10)], chunk(b""))

    assert world.sink.notices == [NOTED]


@pytest.mark.parametrize(
    "body",
    [b"", b"<html></html>", BODY[:-1], b"[]", b'{"output":NaN,"status":"COMPLETED"}', b'{"output":{"n":1}}', b"\xff"],
)
async def test_a_body_that_is_no_job_record_is_noted_as_a_hint(body: bytes) -> None:
    world = World()

    assert (await world.send(hook(), body)).status_code == 200
    assert world.sink.notices == [HINT]
    assert world.figures == WebhookCounters(received=1, hints=1)


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (b"ab12-u1", b"../../cancel/x"),
        (hook().encode(), hook(8).encode()),
        (hook().encode(), b"/another/program"),
        (b'"https://example.com' + hook().encode() + b'"', b'["https://example.com/x"]'),
    ],
    ids=["an id that is none", "the URL of another submission", "the URL of somebody else", "no URL"],
)
async def test_a_record_that_must_be_of_another_job_is_noted_without_what_it_says(own: bytes, other: bytes) -> None:
    world = World()
    assert own in BODY

    assert (await world.send(hook(), BODY.replace(own, other))).status_code == 200
    assert world.sink.notices == [OF_ANOTHER]
    assert world.figures == WebhookCounters(received=1, hints=1)


@pytest.mark.parametrize("echo", [b"null", b'"https:\\/\\/example.com%s"' % hook().replace("/", "\\/").encode()])
async def test_a_record_that_echoes_no_url_or_ours_in_another_spelling_is_believed(echo: bytes) -> None:
    world = World()
    await world.send(hook(), BODY[: BODY.index(b'"https')] + echo + b"}")

    assert world.sink.notices == [NOTED]


async def test_a_body_declared_too_large_is_a_hint_and_not_read() -> None:
    world = World(limits=BodyLimits(body_bytes=100))
    exchange = await world.raw(hook(), headers=[(b"host", b"x"), (b"content-length", b"101")])

    assert (exchange.sent[0]["status"], exchange.reads) == (200, 0)
    assert (b"connection", b"close") in exchange.sent[0]["headers"]
    assert world.sink.notices == [HINT]


@pytest.mark.parametrize("headers", [[], [(b"content-length", b"x")], [(b"content-length", b"9" * 5_000)]])
async def test_a_body_too_large_without_a_sane_length_is_a_hint_and_read_no_further(headers: Any) -> None:
    world = World(limits=BodyLimits(body_bytes=100))
    exchange = await world.raw(hook(), chunk(b"x" * 60, more=True), chunk(b"x" * 60, more=True), headers=headers)

    assert (exchange.sent[0]["status"], exchange.reads) == (200, 2)
    assert world.sink.notices == [HINT]


async def test_a_body_of_just_the_size_allowed_is_read() -> None:
    world = World(limits=BodyLimits(body_bytes=len(BODY)))
    await world.raw(hook(), chunk(BODY), headers=[(b"content-length", str(len(BODY)).encode())])

    assert world.sink.notices == [NOTED]


async def test_a_body_that_does_not_come_within_its_time_is_a_hint() -> None:
    world = World()
    started_s = anyio.current_time()
    response = await world.send(hook(), forever(BODY[:20]))

    assert response.status_code == 200
    assert anyio.current_time() - started_s == pytest.approx(DEFAULT_LIMITS.body_s, abs=0.01)
    assert world.sink.notices == [HINT]


LARGE = BODY.replace(b'{"n":1}', b'"%s"' % (b"x" * 2 * LARGE_BYTES))


@pytest.mark.parametrize("declared", [True, False])
async def test_a_large_body_that_finds_no_place_on_the_line_is_soon_a_hint(declared: bool) -> None:
    world = World()
    world.webhooks.share(places := TransferSlots(world.clock))
    for _ in range(AT_ONCE):
        await places.enter(1)
    headers = [(b"content-length", str(len(LARGE)).encode())] if declared else []
    exchange = await world.raw(hook(), chunk(LARGE[: 2 * LARGE_BYTES], more=True), headers=headers)

    assert anyio.current_time() == DEFAULT_LIMITS.place_s
    assert (exchange.sent[0]["status"], exchange.reads) == (200, 0 if declared else 1)
    assert (b"connection", b"close") in exchange.sent[0]["headers"]
    assert world.sink.notices == [HINT]
    assert places.waiting == 0


async def test_a_large_body_is_read_once_it_has_a_place_on_the_line_and_leaves_it() -> None:
    world = World()
    world.webhooks.share(places := TransferSlots(world.clock))
    taken = [await places.enter(1) for _ in range(AT_ONCE)]
    async with anyio.create_task_group() as group:
        group.start_soon(world.send, hook(), LARGE)
        await anyio.sleep(DEFAULT_LIMITS.place_s / 2)
        taken[0].leave()

    assert [notice.record is not None for notice in world.sink.notices] == [True]
    assert places.line.bodies == AT_ONCE - 1


async def test_where_many_large_bodies_wait_for_the_line_another_one_is_a_hint_at_once() -> None:
    world = World()
    world.webhooks.share(places := TransferSlots(world.clock))
    for _ in range(AT_ONCE):
        await places.enter(1)
    async with anyio.create_task_group() as group:
        for _ in range(WAITING_MAX):
            group.start_soon(world.send, hook(), LARGE)
        await anyio.wait_all_tasks_blocked()
        assert (await world.send(hook(), LARGE)).status_code == 200
        assert anyio.current_time() == 0
        assert world.sink.notices == [HINT]
        await world.send(hook())
        assert world.sink.notices == [HINT, NOTED], "small ones need no place"


async def test_a_body_that_comes_slowly_has_its_time_and_one_that_trickles_has_not() -> None:
    async def coming(size: int) -> AsyncIterator[bytes]:
        for at in range(0, len(LARGE), size):
            await anyio.sleep(8)
            yield LARGE[at : at + size]

    world = World()
    await world.send(hook(), coming(33 * 1024))  # over 32 s
    assert [notice.record is not None for notice in world.sink.notices] == [True]
    await world.send(hook(), coming(100))
    assert world.sink.notices[1:] == [HINT]


@pytest.mark.parametrize(("missing", "noted"), [(0, NOTED), (1, HINT)])
async def test_a_body_that_has_come_may_be_as_large_as_any_other(missing: int, noted: Notice) -> None:
    world = World(limits=BodyLimits(body_bytes=len(BODY) - missing))
    await world.raw(hook(), chunk(BODY), state={WHOLE_BODY: True})

    assert world.sink.notices == [noted]


async def test_a_body_cut_by_its_sender_is_a_hint() -> None:
    world = World()
    await world.raw(hook(), chunk(BODY[:20], more=True), {"type": "http.disconnect"})

    assert world.sink.notices == [HINT]


async def test_bodies_that_together_hold_too_much_memory_become_hints_and_room_is_found_again() -> None:
    world = World(limits=BodyLimits(bodies_bytes=2 * len(BODY)))
    async with anyio.create_task_group() as group:
        group.start_soon(world.send, hook(), forever(b"x" * len(BODY) + b"x"))
        await anyio.wait_all_tasks_blocked()
        await world.send(hook())
        assert world.sink.notices == [HINT]

    await world.send(hook())
    assert world.sink.notices == [HINT, HINT, NOTED]


# --- without a valid token -------------------------------------------------------------------------------------------


def altered(path: str) -> list[str]:
    return [
        path[:-1],
        path + "0",
        path[:-1] + ("1" if path[-1] == "0" else "0"),
        path.replace("/7.", "/8."),
        path + " ",
    ]


PATHS = [
    *altered(hook()),
    hook().upper(),
    "/hooks/",
    "/hooks",
    "/",
    "",
    "/hooks/7.",
    "/hooks/7." + "0" * 32,
    "/hooks/" + token(bytes(KEY_BYTES), 7),
    hook() + "/",
    hook() + "/..",
    "/" + hook(),
    "/hooks/../" + hook(),
    "/hooks/." + hook(),
    "/hooks//" + token(KEY, 7),
    "/x" + hook(),
    "/hooks" + hook(),
    "/hooks/\x00" + token(KEY, 7),
    "\\hooks\\" + token(KEY, 7),
    hook()[1:],
    hook() + "\n",
    hook() + "\N{FULLWIDTH DIGIT SEVEN}",
]


@pytest.mark.parametrize("path", PATHS)
async def test_every_other_path_gets_the_same_empty_404_and_its_body_is_not_read(path: str) -> None:
    world = World()
    exchange = await world.raw(path)
    elsewhere = await world.raw("/elsewhere")

    assert exchange.sent == elsewhere.sent
    assert exchange.sent[0]["status"] == 404
    assert exchange.sent[1]["body"] == b""
    assert exchange.reads == 0
    assert world.sink.notices == []


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "post"])
async def test_every_other_method_gets_the_same_404(method: str) -> None:
    world = World()
    exchange = await world.raw(hook(), method=method)

    assert exchange.sent == (await world.raw("/elsewhere")).sent
    assert exchange.reads == 0
    assert world.figures == WebhookCounters(refused=1)


@given(texts())
async def test_no_text_passes_for_a_token(text: str) -> None:
    world = World()
    await world.raw(f"/hooks/{text}")

    assert world.sink.notices == []
    assert world.figures.received == 0


# --- the prefix ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [hook(), "/gpu/batch" + hook()])
async def test_the_prefix_may_arrive_stripped_or_not(path: str) -> None:
    world = World(prefix="/gpu/batch")

    assert (await world.send(path)).status_code == 200
    assert world.sink.notices == [NOTED]


@pytest.mark.parametrize(
    "path", ["/gpu" + hook(), "/batch" + hook(), "/gpu/batch/" + hook(), "/gpu/batch" * 2 + hook()]
)
async def test_no_other_prefix_is_taken(path: str) -> None:
    world = World(prefix="/gpu/batch")

    assert (await world.raw(path)).sent[0]["status"] == 404


async def test_a_prefix_that_looks_like_the_path_of_hooks_is_one() -> None:
    world = World(prefix="/hooks")

    assert (await world.send("/hooks" + hook())).status_code == 200
    assert (await world.send(hook())).status_code == 200


# --- what is not said ------------------------------------------------------------------------------------------------


async def test_nothing_of_a_request_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="orchestrator")
    world = World(limits=BodyLimits(body_bytes=1_000))
    await world.send(hook())
    await world.send(hook(), b"x" * 2_000)
    await world.send(hook()[:-1])
    world.sink.error = StorageError()
    await world.send(hook())

    assert [entry for entry in caplog.records if entry.name.startswith("orchestrator")] == []


async def test_a_sink_that_breaks_gives_no_2xx_and_is_logged_by_name_only(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    world = World()
    world.sink.error = KeyError(hook())

    with pytest.raises(KeyError):
        await world.send(hook())

    assert [entry.getMessage() for entry in caplog.records] == ["a request to the listener failed: KeyError"]
