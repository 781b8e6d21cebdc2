"""The official client, unmodified, against the emulator: run, runsync, status, output, stream, cancel, health, purge;
and user, GPUs, registries, templates, endpoints and pods. At its strictest: what passes there passes elsewhere.
"""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from orchestrator.emulator.serving import serve
from orchestrator.emulator.workers.handlers import HandlerInput
from tests.emulator.emulators import double

pytestmark = [pytest.mark.anyio, pytest.mark.system]

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("official_client.py")


def count(job: HandlerInput) -> Iterator[object]:
    for n in range(job["input"]["n"]):
        yield {"n": n}


@pytest.mark.slow
async def test_the_official_client_works_unmodified_sync_and_asyncio(tmp_path: Path) -> None:
    endpoints = {"ep": double, "stream": count}
    async with serve(endpoints=endpoints, any_endpoint=True, keys=("the-key",), strict=True) as service:
        environment = {**os.environ, "HOME": str(tmp_path), "PYTHONPATH": str(ROOT), **service.environment()}
        ended = await anyio.run_process([sys.executable, str(PROGRAM)], env=environment, check=False)
    assert ended.returncode == 0, ended.stderr.decode()
    calls = [json.loads(line) for line in ended.stdout.decode().splitlines() if line.startswith("{")]
    assert (len(calls), [call for call in calls if call["why"]]) == (18, [])
