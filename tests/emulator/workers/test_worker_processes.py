"""Worker processes, with programs that do not speak the protocol: how they start, crash and are stopped."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from orchestrator.clock import SystemClock
from orchestrator.emulator import ServedEmulator
from orchestrator.emulator.jobs.scaling_rules import Scaling, fixed
from orchestrator.emulator.serving import serve
from orchestrator.emulator.workers.worker_processes import INHERITED, WorkerEnvironment
from tests.emulator.emulators import emulator

pytestmark = [pytest.mark.anyio, pytest.mark.system]

PATIENCE_S = 30
ONE = fixed(1)
STAYS = (sys.executable, "-c", "import signal; signal.pause()")


@asynccontextmanager
async def serving(command: tuple[str, ...], **settings: Any) -> AsyncIterator[ServedEmulator]:
    async with serve(command=command, **settings) as service:
        with anyio.fail_after(PATIENCE_S):
            yield service


def running(service: ServedEmulator) -> list[int]:
    processes = service.emulator._workforce.processes
    assert processes is not None
    return [process.pid for process in processes._running.values()]


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_a_worker_that_ends_by_itself_is_unhealthy_and_another_takes_its_place_later() -> None:
    async with serving(("false",), time_scale=20.0) as service:
        service.emulator.deploy("ep", ONE)
        fleet = service.emulator.world.endpoints.fleet("ep")
        while fleet._crashes < 2:
            await anyio.lowlevel.checkpoint()
        assert fleet.counts().unhealthy == 1
        assert fleet.counts().ready == 0


async def test_a_worker_that_is_no_longer_wanted_is_asked_to_go_and_gone() -> None:
    async with serving(STAYS) as service:
        service.emulator.deploy("ep", ONE)
        while not running(service):
            await anyio.lowlevel.checkpoint()
        (pid,) = running(service)
        service.emulator.deploy("ep", fixed(0))
        while running(service):
            await anyio.lowlevel.checkpoint()
        assert not is_alive(pid)
        assert service.emulator.world.endpoints.fleet("ep")._crashes == 0


async def test_no_worker_outlives_the_emulator() -> None:
    async with serving(STAYS) as service:
        service.emulator.deploy("ep", ONE)
        while not running(service):
            await anyio.lowlevel.checkpoint()
        (pid,) = running(service)
    assert not is_alive(pid)


async def test_a_worker_that_is_not_wanted_before_its_cold_start_is_over_never_starts(tmp_path: Path) -> None:
    mark = tmp_path / "started"
    async with serving(("touch", str(mark)), time_scale=100.0) as service:
        processes = service.emulator._workforce.processes
        assert processes is not None
        service.emulator.deploy("ep", Scaling(workers_min=1, workers_max=1, cold_start_s=20))
        while not service.emulator.world.endpoints.fleet("ep").own():
            await anyio.lowlevel.checkpoint()
        service.emulator.deploy("ep", Scaling(cold_start_s=20, workers_max=0))
        while not processes._going:
            await anyio.lowlevel.checkpoint()
        while processes._going:
            await anyio.lowlevel.checkpoint()
    assert not mark.exists()


async def test_before_and_after_it_serves_an_emulator_starts_nothing() -> None:
    subject = emulator(clock=SystemClock(), command=("false",))
    assert subject._workforce.processes is not None
    subject._workforce.processes.start("other", "w1")
    subject._workforce.processes.stop("other", "w1")
    subject._workforce.processes.expect_to_listen("other", "w1", anyio.Event())
    assert subject._workforce.processes._running == {}


def test_a_worker_sees_the_variables_of_the_service_and_little_else() -> None:
    """As observed."""
    variables = WorkerEnvironment(key="k", ping_interval_s=0.2, template=lambda _endpoint: {})
    environment = variables.of("http://emu:1", "ep", "w1", "/its/own")
    assert environment["RUNPOD_WEBHOOK_GET_JOB"] == "http://emu:1/v2/ep/job-take/$ID?gpu=CPU"
    assert environment["RUNPOD_PING_INTERVAL"] == "1000"  # the official worker would ping without a pause below that
    assert all("?" in value for name, value in environment.items() if "WEBHOOK" in name)
    assert "HOME" not in INHERITED
