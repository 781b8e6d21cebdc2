"""A service with large answers: the job interface in a few lines, as much as a run over a narrow line asks of it.

Every job has finished when it is asked for, with an output of `output_bytes`. With `webhooks` the output is also pushed.
"""

import asyncio
import json
from collections import Counter

import anyio
from anyio.abc import TaskStatus

from orchestrator.emulator.http.webhook_post import post
from orchestrator.emulator.job_api.webhook_delivery import WebhookDelivery
from orchestrator.emulator.jobs.webhook_schedule import WebhookCall

HOOK_TIMEOUT_S = 10.0
HOOK_DELAYS_S = (10.0, 10.0)
HOOKS_AT_ONCE = 256


class LargeService:
    """`address` is where it listens, `counted` what came of its requests by operation."""

    def __init__(self, *, output_bytes: int, answer_after_s: float = 0.0) -> None:
        self.address = ""
        self.counted: Counter[str] = Counter()
        self.held = anyio.Event()
        """Set once a hundred submissions or more wait for their answer."""

        self._output = b'"' + b"x" * output_bytes + b'"'
        self._answer_after_s = answer_after_s
        self._waiting = 0
        self._hooks = WebhookDelivery(post, delays_s=HOOK_DELAYS_S, timeout_s=HOOK_TIMEOUT_S, concurrency=HOOKS_AT_ONCE)

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Serves until cancelled."""
        async with anyio.create_task_group() as tasks:
            await tasks.start(self._hooks.serve)
            server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with server:
                task_status.started()
                await anyio.sleep_forever()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    (int(line[15:]) for line in head.split("\r\n") if line.lower().startswith("content-length:")), 0
                )
                operation, _, job = head.split(" ", 2)[1].removeprefix("/v2/ep/").partition("/")
                body = await reader.readexactly(length)
                answer = await self._answer(operation, job, body)
                writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {len(answer)}\r\n\r\n".encode())
                writer.write(answer)
                await writer.drain()
                self.counted[f"{operation} answered"] += 1
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            self.counted["cut"] += 1
        finally:
            writer.close()

    async def _answer(self, operation: str, job: str, body: bytes) -> bytes:
        self.counted[operation] += 1
        if operation == "run":
            return await self._accepted(body)
        return self._record(job) if operation == "status" else b"{}"

    async def _accepted(self, body: bytes) -> bytes:
        job = f"job-{self.counted['run']}"
        self._waiting += 1
        if self._waiting >= 100:
            self.held.set()
        await anyio.sleep(self._answer_after_s)
        self._waiting -= 1
        if b'"webhook":' in body[-500:]:
            url = json.loads(b"{" + body[body.rindex(b'"webhook":') :])["webhook"]
            self._hooks.send(WebhookCall(url=url, body=self._record(job)))
        return b'{"id":"%s","status":"IN_QUEUE"}' % job.encode()

    def _record(self, job: str) -> bytes:
        return b'{"id":"%s","status":"COMPLETED","delayTime":5,"executionTime":20,"output":%s}' % (
            job.encode(),
            self._output,
        )
