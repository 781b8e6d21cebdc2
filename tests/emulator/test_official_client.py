"""The official client, unmodified, against the emulator: run, runsync, status, output, stream, cancel, health, purge."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.emulator.handlers import Job
from orchestrator.emulator.serving import serve
from tests.emulator.emulators import double

pytestmark = [pytest.mark.anyio, pytest.mark.system]

PROGRAM = Path(__file__).with_name("official_client.py")


def count(job: Job) -> Iterator[object]:
    for n in range(job["input"]["n"]):
        yield {"n": n}


async def test_the_official_client_works_unmodified_sync_and_asyncio(tmp_path: Path) -> None:
    endpoints = {"ep": double, "stream": count}
    async with serve(endpoints=endpoints, any_endpoint=True, keys=("the-key",)) as service:
        environment = {**os.environ, "HOME": str(tmp_path), **service.environment()}
        ended = await anyio.run_process([sys.executable, str(PROGRAM)], env=environment, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
