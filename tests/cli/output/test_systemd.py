"""What a service manager is told, and how often."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.cli.framework.signals import stop_on_signals
from orchestrator.cli.output.consoles import QuietConsole
from orchestrator.cli.output.systemd import READY, alive_every_s, notify

MANAGER = "NOTIFY_SOCKET"


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A service manager's end of the line."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(tmp_path / "s"))
        listening.settimeout(5)
        monkeypatch.setenv(MANAGER, str(tmp_path / "s"))
        yield listening


def test_nobody_is_told_where_nobody_asks_or_listens_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(MANAGER, raising=False)
    notify(READY)
    monkeypatch.setenv(MANAGER, str(tmp_path / "gone"))
    notify(READY)


def test_the_manager_is_told_that_the_work_is_under_way_and_that_it_stops(manager: socket.socket) -> None:
    console = QuietConsole()
    console.ready()
    console.interrupted(15)
    assert [manager.recv(100), manager.recv(100)] == [b"READY=1", b"STOPPING=1"]


@pytest.mark.skipif(not hasattr(os, "eventfd"), reason="only Linux has sockets without a file")
def test_a_socket_without_a_file_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(f"\0orchestrator-{os.getpid()}")
        listening.settimeout(5)
        monkeypatch.setenv(MANAGER, f"@orchestrator-{os.getpid()}")
        notify(READY)
        assert listening.recv(100) == b"READY=1"


@pytest.mark.parametrize(
    ("usec", "pid", "every_s"),
    [("", "", None), ("0", "", None), ("x", "", None), ("3000000", "", 1.5), ("3000000", "1", None)],
)
def test_it_is_alive_twice_in_the_time_that_its_manager_waits(
    usec: str, pid: str, every_s: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)
    assert alive_every_s() == every_s


@pytest.mark.anyio
async def test_while_its_event_loop_turns_it_says_that_it_is_alive(
    manager: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    async with stop_on_signals(QuietConsole()):
        for _ in range(3):
            assert await anyio.to_thread.run_sync(manager.recv, 100) == b"WATCHDOG=1"
