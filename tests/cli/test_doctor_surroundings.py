"""What `doctor` says of the disk and the file system of a ledger, and of its webhook URL: with real files and sockets."""

import os
import resource
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from orchestrator.api.inspect.doctor import doctor
from orchestrator.api.inspect.run_facts import free_bytes
from orchestrator.api.inspect.service_probe import webhook_state
from orchestrator.clock import SystemClock
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.service.addresses import Address
from orchestrator.core.service.webhook_token import Notice
from orchestrator.ledger import network_file_system
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.web.application import listener_application
from orchestrator.web.server import Listener
from orchestrator.web.webhook_routes import Webhooks
from tests.client.raw_server import answering, closed_port, response, serving
from tests.engine.rows import empty_ledger

pytestmark = pytest.mark.anyio

KEY = bytes(range(32))


class Nobody:
    """Takes no notices."""

    async def note(self, notice: Notice) -> None:
        raise AssertionError(notice)


async def test_the_listener_answers_by_the_key_of_the_ledger_and_only_by_that() -> None:
    clock = SystemClock()
    webhooks = Webhooks(key=KEY, sink=Nobody(), clock=clock, prefix="/batch")
    listener = Listener(listener_application(webhooks), Address("127.0.0.1", 0), grace_s=0)
    async with anyio.create_task_group() as tasks:
        await tasks.start(listener.serve)
        for url in (listener.url, f"{listener.url}/batch"):
            assert (await webhook_state(url, KEY, clock, within_s=5)).is_ours
        for url, key in ((listener.url, KEY[::-1]), (f"{listener.url}/elsewhere", KEY)):
            state = await webhook_state(url, key, clock, within_s=5)
            assert (state.status, state.is_ours, state.failure) == (404, False, None)
        tasks.cancel_scope.cancel()


async def says_nothing(stream: SocketStream) -> None:
    await stream.receive()
    await anyio.sleep_forever()


@pytest.mark.parametrize(
    ("handler", "status", "failure"),
    [(answering(response(b"welcome")), 200, None), (says_nothing, None, "nothing came for 0.05 s")],
)
async def test_somebody_else_and_nobody_are_told_apart(
    handler: Callable[[SocketStream], Awaitable[None]], status: int | None, failure: str | None
) -> None:
    async with serving(handler) as address:
        state = await webhook_state(f"http://{address}", KEY, SystemClock(), within_s=0.05 if failure else 5)
    assert (state.status, state.is_ours) == (status, False)
    assert (state.failure is None) is (failure is None)
    assert (failure or "") in (state.failure or "")


async def test_a_closed_port_is_no_answer() -> None:
    state = await webhook_state(f"http://{closed_port()}", KEY, SystemClock(), within_s=5)
    assert state.failure is not None
    assert state.status is None


async def test_a_ledger_on_a_network_disk_is_told(tmp_path: Path) -> None:
    path = empty_ledger(tmp_path / "l.db")
    mounts = tmp_path / "mounts"
    mounts.write_text(f"server:/share {tmp_path} nfs4 rw 0 0\n")
    found = await doctor(DoctorRequest(ledger=path), network_of=partial(network_file_system, mounts=mounts))
    assert [finding.cause for finding in found.findings] == [Cause.LEDGER_ON_NETWORK]
    assert (await doctor(DoctorRequest(ledger=path))).findings == ()


def test_free_space_is_that_of_the_disk_and_of_the_limit_on_files(tmp_path: Path) -> None:
    path = tmp_path / "l.db"
    path.write_bytes(b"x" * 1_000)
    (tmp_path / "l.db-wal").write_bytes(b"x" * 4_000)
    assert free_bytes(tmp_path / "no folder" / "l.db") is None
    before = free_bytes(path)
    assert before is not None
    assert before <= os.statvfs(tmp_path).f_frsize * os.statvfs(tmp_path).f_blocks
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        assert free_bytes(path) == 1_000
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
