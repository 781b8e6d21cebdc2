"""Load balancing endpoints: straight to a worker's HTTP server, without a queue (contract, Endpoint types)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import JobOperation
from orchestrator.emulator.jobs.scaling_rules import Scaler, Scaling
from orchestrator.emulator.server import Emulator
from orchestrator.errors import UsageError
from tests.emulator.emulators import KEY, emulator, serving

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

CREATE = {
    "name": "e",
    "type": "LOAD_BALANCER",
    "image": "me/server:1",
    "gpu": {"pools": ["AMPERE_24"]},
    "scaling": {"type": "REQUEST_COUNT", "requestCount": 2},
}


async def _ping(_request: Request) -> Response:
    return JSONResponse({"status": "healthy"})


async def _echo(request: Request) -> Response:
    body = (await request.body()).decode()
    return JSONResponse(
        {"path": request.url.path, "asked": request.url.query, "body": body, "loaded": _loaded(request)}
    )


def _loaded(request: Request) -> object:
    return getattr(request.state, "model", None)


async def _nap(request: Request) -> Response:
    await anyio.sleep(float(request.query_params["s"]))
    return PlainTextResponse("rested")


async def _events(_request: Request) -> Response:
    async def events() -> AsyncIterator[bytes]:
        for n in range(3):
            await anyio.sleep(1)
            yield b"data: %d\n\n" % n

    return StreamingResponse(events(), media_type="text/event-stream")


async def _fail(_request: Request) -> Response:
    raise RuntimeError("out of memory")


@asynccontextmanager
async def _lifespan(_app: Starlette) -> AsyncIterator[dict[str, object]]:
    yield {"model": "loaded"}


SERVER = Starlette(
    routes=[
        Route("/ping", _ping),
        Route("/generate", _echo, methods=["POST"]),
        Route("/nap", _nap),
        Route("/events", _events),
        Route("/fail", _fail),
    ],
    lifespan=_lifespan,
)


def balanced(**settings: Any) -> Emulator:
    return emulator(**{"http_endpoints": {"lb": SERVER}, **settings})


@asynccontextmanager
async def asking(subject: Emulator, endpoint: str = "lb") -> AsyncIterator[httpx.AsyncClient]:
    async with (
        serving(subject),
        httpx.AsyncClient(
            transport=httpx.ASGITransport(subject.app), base_url=f"http://emulator/lb/{endpoint}", headers=KEY
        ) as http,
    ):
        yield http


async def test_a_request_reaches_the_workers_own_server_as_it_was_sent() -> None:
    async with asking(balanced()) as http:
        answer = await http.post("/generate?steps=3", content=b'{"prompt":"fog"}')
        assert answer.json() == {
            "path": "/generate",
            "asked": "steps=3",
            "body": '{"prompt":"fog"}',
            "loaded": "loaded",
        }
        assert (await http.get("/ping")).json() == {"status": "healthy"}
        assert (await http.get("/nothing")).status_code == 404
        assert (await http.get("/generate")).status_code == 405
        assert (await http.get("/fail")).status_code == 500
        assert (await http.post("/generate", headers={"authorization": ""})).status_code == 401


async def test_it_has_no_queue_and_an_endpoint_with_a_queue_no_paths_of_its_own() -> None:
    async with asking(balanced()) as http:
        for method, path in (("POST", "run"), ("POST", "runsync"), ("GET", "health"), ("GET", "status/j")):
            answer = await http.request(method, f"http://emulator/v2/lb/{path}", json={"input": {"n": 1}})
            assert answer.status_code == 404
            assert "load balancing endpoint" in answer.json()["error"]
        assert (await http.post("http://emulator/lb/ep/generate")).status_code == 404
        assert (await http.post("http://emulator/v2/ep/run", json={"input": {"n": 1}})).status_code == 200


async def test_one_that_is_created_says_where_it_is_asked_and_scales_by_its_requests() -> None:
    subject = emulator(http_endpoints={"*": SERVER}, scaling=Scaling(cold_start_s=7))
    async with asking(subject) as http:
        made = (await http.post("http://emulator/v2/serverless", json=CREATE)).json()
        base = f"http://emulator/lb/{made['id']}"
        assert made["requestUrls"] == {"base": base, "health": f"{base}/ping"}
        fresh = await http.get(made["requestUrls"]["health"])
        assert fresh.status_code == 404
        assert "not reachable yet" in fresh.json()["error"]
        await anyio.sleep(6)
        assert (await http.get(made["requestUrls"]["health"])).status_code == 204
        began = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(http.get, f"{base}/nap?s=10")
            await anyio.sleep(8)
            assert subject.world.health(made["id"]).workers.running == 3
            assert (await http.get(made["requestUrls"]["health"])).status_code == 200
        assert anyio.current_time() - began == 17
        await anyio.sleep(20)
        assert subject.world.endpoints.fleet(made["id"]).running() == 0


async def test_without_a_worker_it_is_refused_after_two_minutes_and_after_330_s_of_work_given_up() -> None:
    none = emulator(http_endpoints={"lb": SERVER}, scaling=Scaling(machines=0, scaler=Scaler.REQUEST_COUNT))
    async with asking(none) as http:
        began = anyio.current_time()
        answer = await http.get("/nap?s=1")
        assert (answer.status_code, answer.json()) == (400, {"error": "no workers available"})
        assert anyio.current_time() - began == 120
    async with asking(balanced()) as http:
        began = anyio.current_time()
        assert (await http.get("/nap?s=400", timeout=1000)).status_code == 524
        assert anyio.current_time() - began == 330
        assert (await http.post("/generate", content=b"x" * (30 * 2**20 + 1))).status_code == 413


async def test_events_come_as_they_are_written() -> None:
    subject = balanced()
    scope = {"type": "http", "method": "GET", "path": "/lb/lb/events", "query_string": b"", "headers": _headers()}
    came: list[tuple[float, bytes]] = []

    async def receive() -> dict[str, object]:
        if not came:
            came.append((anyio.current_time(), b""))
            return {"type": "http.request", "body": b"", "more_body": False}
        await anyio.sleep_forever()
        raise AssertionError

    async def send(message: Any) -> None:
        if message.get("body"):
            came.append((anyio.current_time(), message["body"]))

    async with serving(subject):
        await subject.app(scope, receive, send)
    (start, _), *events = came
    assert [(at - start, body) for at, body in events] == [(n + 1, b"data: %d\n\n" % n) for n in range(3)]


def leaves(error: BaseException) -> list[BaseException]:
    """What is in a group of groups."""
    return (
        [leaf for each in error.exceptions for leaf in leaves(each)]
        if isinstance(error, BaseExceptionGroup)
        else [error]
    )


def _headers() -> list[tuple[bytes, bytes]]:
    return [(b"host", b"emulator"), *((name.encode(), value.encode()) for name, value in KEY.items())]


async def test_who_hangs_up_frees_the_worker() -> None:
    subject = balanced(workers=1)
    async with asking(subject) as http:
        with anyio.move_on_after(3):
            await http.get("/nap?s=100")
        assert subject.world.endpoints.fleet("lb").counts().running == 0
        assert subject.gate.meters.figures("lb", JobOperation.HTTP).concurrent == 0


@pytest.mark.parametrize("fault", ["lost_answer", "cut_answer", "not_json", "throttled", "slow_answer"])
async def test_the_faults_of_the_wire_strike_it_too(fault: str) -> None:
    subject = balanced(faults=msgspec.structs.replace(Faults(slow_answer_s=9.0), **{fault: 1.0}))
    async with asking(subject) as http:
        began = anyio.current_time()
        if fault in ("lost_answer", "cut_answer"):
            with pytest.raises((ConnectionCut, httpx.HTTPError)):
                await http.post("/generate")
            return
        answer = await http.post("/generate")
        match fault:
            case "not_json":
                assert answer.headers["content-type"].startswith("text/html")
            case "throttled":
                assert answer.status_code == 429
            case _:
                assert anyio.current_time() - began == 9


async def test_an_application_that_cannot_begin_ends_the_emulator_and_one_without_a_life_is_served() -> None:
    @asynccontextmanager
    async def broken(app: Starlette) -> AsyncIterator[None]:
        if app.routes == []:
            raise RuntimeError("no such model")
        yield

    with pytest.raises(BaseExceptionGroup) as raised:
        async with asking(balanced(http_endpoints={"lb": Starlette(lifespan=broken)})):
            raise AssertionError
    (problem,) = leaves(raised.value)
    assert isinstance(problem, UsageError)
    assert "no such model" in str(problem)

    async def plain(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["type"] == "http"
        await PlainTextResponse("here")(scope, receive, send)

    async with asking(balanced(http_endpoints={"lb": plain})) as http:
        assert (await http.get("/anything")).text == "here"
