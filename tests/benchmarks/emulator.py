"""The emulator alone: `/run` and `/status` a second on one core, and its memory over many jobs.

Run as `python -m tests.benchmarks.emulator`. The server has a process of its own; this one only asks.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import uvloop

from orchestrator.emulator.serving import serve
from tests.guarantees.recording import record

CONNECTIONS = 32
JOBS = 200_000
RETENTION_S = 0.5

SPEED_MIN = 1_500
GROWTH_MB_MAX = 10
"""What is promised of the emulator alone."""

COMMAND = "python -m tests.benchmarks.emulator"

BODY = b'{"input":{"n":1}}'


async def echo(job: dict[str, Any]) -> object:
    return {"echo": job["input"]}


async def serve_forever() -> None:
    async with serve(echo, limits={}, retention_s=RETENTION_S, workers=64) as service:
        print(service.origin, flush=True)
        await anyio.sleep_forever()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mb(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


async def answer(stream: anyio.abc.ByteStream) -> bytes:
    """A whole answer: head and body may come apart, and every body here is an object that ends the answer."""
    received = await stream.receive()
    while not received.endswith(b"}"):
        received += await stream.receive()
    return received


async def ask(origin: str, jobs: int) -> None:
    """Half `/run`, half `/status`, over raw sockets: the asking must cost less than the answering."""
    host, port = origin.removeprefix("http://").split(":")
    head = f"Host: {host}\r\nAuthorization: k\r\n"
    run = f"POST /v2/ep/run HTTP/1.1\r\n{head}Content-Length: {len(BODY)}\r\n\r\n".encode() + BODY

    async def one(jobs: int) -> None:
        async with await anyio.connect_tcp(host, int(port)) as stream:
            for _ in range(jobs):
                await stream.send(run)
                job_id = (await answer(stream)).split(b'"id":"', 1)[1].split(b'"', 1)[0].decode()
                await stream.send(f"GET /v2/ep/status/{job_id} HTTP/1.1\r\n{head}\r\n".encode())
                await answer(stream)

    async with anyio.create_task_group() as tasks:
        for _ in range(CONNECTIONS):
            tasks.start_soon(one, jobs // CONNECTIONS)


def measure(jobs: int, *, rounds: int = 1) -> tuple[float, list[float]]:
    """Requests per second of the server's processor time, and its memory (MB) after each round of `jobs`."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.benchmarks.emulator", "serve"], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            origin = server.stdout.readline().strip()
            memory: list[float] = []
            before, requests = cpu_s(server.pid), 0
            for _ in range(rounds):
                uvloop.run(ask(origin, jobs))
                requests += 2 * (jobs // CONNECTIONS) * CONNECTIONS
                memory.append(resident_mb(server.pid))
            speed = requests / (cpu_s(server.pid) - before)
        finally:
            server.kill()
    return speed, memory


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        uvloop.run(serve_forever())
    else:
        started = time.perf_counter()
        speed, memory = measure(JOBS // 10, rounds=10)
        print(f"{speed:,.0f} /run+/status a second on one core; {JOBS:,} jobs in {time.perf_counter() - started:.0f} s")
        print("memory after each tenth (MB):", ", ".join(f"{megabytes:.0f}" for megabytes in memory))
        record("/run and /status requests a second of one core", speed, "requests/s", COMMAND, at_least=SPEED_MIN)
        record(
            f"memory gained from the second tenth of {JOBS:,} jobs to the last",
            memory[-1] - memory[1],
            "MB",
            COMMAND,
            at_most=GROWTH_MB_MAX,
        )
