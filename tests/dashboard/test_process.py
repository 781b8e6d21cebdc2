"""The dashboard as a process: where it listens, how one gets in first, and what it must not hold."""

import socket
from contextlib import closing
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.clock import SystemClock
from orchestrator.core.service.addresses import Address
from orchestrator.dashboard.process import DashboardPlace, drop_secrets, serve_dashboard
from orchestrator.errors import UsageError
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from tests.engine.rows import empty_ledger

pytestmark = pytest.mark.anyio

ANY_PORT = Address("127.0.0.1", 0)
NOBODY = ConnectionSettings()


async def test_it_answers_where_it_says_and_its_first_link_signs_in(tmp_path: Path) -> None:
    ledger, stop = empty_ledger(tmp_path / "ledger.db"), anyio.Event()
    found: list[DashboardPlace] = []
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            is_ready = anyio.Event()

            def ready(place: DashboardPlace) -> None:
                found.append(place)
                is_ready.set()

            async def serve() -> None:
                settings = DashboardSettings(listen=ANY_PORT)
                await serve_dashboard(
                    ledger, settings, clock=SystemClock(), stop=stop, ready=ready, connection=NOBODY, environ={}
                )

            tasks.start_soon(serve)
            await is_ready.wait()
            [place] = found
            async with httpx.AsyncClient(base_url=place.url, trust_env=False) as client:
                assert (await client.get("/healthz")).json() == {"status": "ok"}
                assert (await client.get("/")).status_code == 401
                assert place.sign_in is not None
                token = place.sign_in.link.partition("link=")[2]
                answer = await client.post("/login", data={"link": token}, headers={"Origin": place.url})
                assert answer.status_code == 303
                port = place.url.rpartition(":")[2]
                assert f"orchestrator-{port}" in client.cookies, "another dashboard here has another one"
                assert (await client.get("/")).status_code == 200
            stop.set()
    async with httpx.AsyncClient(trust_env=False) as client:
        with pytest.raises(httpx.ConnectError):
            await client.get(place.url)


async def test_a_port_that_is_taken_is_said_to_be(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        settings = DashboardSettings(listen=Address("127.0.0.1", taken.getsockname()[1]))
        with pytest.raises(UsageError, match="another program listens there"):
            await serve_dashboard(
                empty_ledger(tmp_path / "ledger.db"),
                settings,
                clock=SystemClock(),
                stop=anyio.Event(),
                ready=lambda _: None,
                connection=NOBODY,
                environ={},
            )


def test_no_key_is_left_in_its_environment() -> None:
    environ = {
        "PATH": "/bin",
        "ORCHESTRATOR_API_KEY": "a",
        "RUNPOD_API_KEY": "b",
        "WORK": "c",
        "HF_TOKEN": "d",
        "AWS_SECRET_ACCESS_KEY": "e",
        "db_password": "f",
        "ORCHESTRATOR_DASHBOARD_URL": "https://x.example",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": "client.pem",
    }
    assert drop_secrets(environ, {"WORK"}) == {}
    assert environ == {
        "PATH": "/bin",
        "ORCHESTRATOR_DASHBOARD_URL": "https://x.example",
        "OTEL_EXPORTER_OTLP_CLIENT_KEY": "client.pem",
    }


def test_what_tells_people_is_kept_apart_and_no_key_with_it() -> None:
    environ = {"PATH": "/bin", "OPS": "https://hooks.example/", "HOOK_SECRET": "s", "WORK": "c", "RUNPOD_API_KEY": "b"}
    told = drop_secrets(environ, {"WORK"}, telling=("OPS", "HOOK_SECRET", "WORK", "RUNPOD_API_KEY", "GONE"))
    assert told == {"OPS": "https://hooks.example/", "HOOK_SECRET": "s"}
    assert environ == {"PATH": "/bin"}
