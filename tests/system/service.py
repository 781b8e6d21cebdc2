"""A service that is not our emulator: the job interface in a few lines of the standard library, in its own process.

    python tests/system/service.py <<< '{"hold": true}'

The first line of its standard input is a JSON object with fields of `Options`. The process prints its port and serves
until its standard input ends, whatever becomes of its clients. Beside `/v2/{endpoint}/…` it has four paths of its own for
the test: `GET /log` (what it has seen), `GET /senders/{n}` (who has sent, from that number on), `GET /wait/{counter}/{n}`
(answers once the counter has come so far) and `POST /options` (changes some of them; what was held is let go when nothing
is held any more).

It imports nothing of the program: what is written here is the contract, read a third time.
"""

import asyncio
import json
import random
import sys
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import TaskGroup


@dataclass
class Options:
    """How the service behaves. Shares are of 1."""

    key: str = "the-key-of-the-tests"
    other_keys: tuple[str, ...] = ()
    """Of further processes, which are to be told apart: of each request it is noted whose key it bore, and when it came."""

    endpoint: str = "ep1"
    others: tuple[str, ...] = ()
    """Further endpoints that are the same."""

    throttled: str = ""
    """Another endpoint, where there is a machine for no worker: jobs wait there until they are cancelled."""

    seed: int = 1
    finish_after_s: tuple[float, float] = (0.02, 0.1)
    """A job takes a time between these."""

    retention_s: float = 1800.0
    """A job is forgotten so long after it has finished."""

    hook_copies: int = 1
    hooks_lost: float = 0.0
    hook_tries: int = 3
    hook_gap_s: float = 0.3
    """Between the tries of a webhook that was not answered 2xx."""

    answers_dropped: float = 0.0
    """Accepted submissions whose connection is closed without an answer."""

    accept_max: int | None = None
    """How many submissions are accepted; further ones are answered `refusal`."""

    refusal: int = 401
    hold: bool = False
    """Jobs do not finish, but for those whose input says that they are `eager`."""

    answer_after_s: float = 0.0
    """How long an accepted submission waits for its answer."""

    silent: bool = False
    """Submissions are accepted and never answered."""


@dataclass
class Job:
    id: str
    body: dict[str, Any]
    endpoint: str = ""
    status: str = "IN_QUEUE"
    executions: int = 0

    def record(self) -> dict[str, Any]:
        told: dict[str, Any] = {"id": self.id, "status": self.status}
        if self.status == "COMPLETED":
            given = self.body["input"]
            all_of_it = {"asked": self.body} if given.get("tells_all") else {}
            return told | {
                "delayTime": 3,
                "executionTime": 20,
                "workerId": "w1",
                "output": {"echo": given, "filler": "x" * given.get("filler", 0), **all_of_it},
            }
        if self.status == "FAILED":
            return told | {"error": json.dumps({"error_type": "ValueError", "error_message": "it was asked to fail"})}
        return told


@dataclass
class Service:
    options: Options
    group: TaskGroup
    jobs: dict[str, Job] = field(default_factory=dict)
    accepted: list[Any] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)
    """The ids of accepted submissions whose answer was not dropped."""

    counted: Counter[str] = field(default_factory=Counter)
    senders: list[tuple[float, str, str, str]] = field(default_factory=list)
    told: list[dict[str, Any]] = field(default_factory=list)
    """The messages that came, each with its id."""

    progress: anyio.Event = field(default_factory=anyio.Event)

    def count(self, what: str) -> None:
        self.counted[what] += 1
        self.progress.set()
        self.progress = anyio.Event()

    # --- connections

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests = 0
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                requests += 1
                request, *lines = head.strip().split("\r\n")
                headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                method, path, _ = request.split(" ")
                path = path.removeprefix(f"http://{headers.get('host')}")  # as a proxy is told it
                answer = await self.answer(method, path, headers, body)
                if answer is None:
                    return
                status, told = answer
                content = json.dumps(told).encode()
                writer.write(b"HTTP/1.1 %d -\r\nContent-Length: %d\r\n\r\n%b" % (status, len(content), content))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            if not requests:  # a client that died while it connected
                self.count("unused")
        finally:
            writer.close()

    async def answer(
        self, method: str, path: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, Any]] | None:
        match method, *path.strip("/").split("/"):
            case _, "v2", endpoint, operation, *rest:
                self.count(operation)
                return await self.served(method, endpoint, operation, "/".join(rest), headers, body)
            case "GET", "senders", number:
                return 200, {"senders": self.senders[int(number) :]}
            case "POST", "told":
                self.told.append({"id": headers["webhook-id"], **json.loads(body)})
            case "GET", "told":
                return 200, {"told": self.told}
            case "GET", "wait", counter, number:
                await self.wait(counter, int(number))
            case "POST", "options":
                self.change(json.loads(body))
            case _:
                pass  # GET /log
        return 200, self.log()

    async def wait(self, counter: str, number: int) -> None:
        while self.counted[counter] < number:
            await self.progress.wait()

    def log(self) -> dict[str, Any]:
        stores = [job.body["s3Config"] for job in self.jobs.values() if "s3Config" in job.body]
        return {
            "accepted": self.accepted, "answered": self.answered, "counted": self.counted, "stores": stores,
            "senders": self.senders,
        }  # fmt: skip

    async def served(
        self, method: str, endpoint: str, operation: str, remote_id: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, Any]] | None:
        key = headers.get("authorization", "").removeprefix("Bearer ")
        if self.options.other_keys:
            self.senders.append((anyio.current_time(), key, operation, endpoint))
        if key not in (self.options.key, *self.options.other_keys):
            return 401, {"error": "unauthorized"}
        if endpoint not in {self.options.endpoint, *self.options.others, self.options.throttled}:
            return 404, {"error": "endpoint not found"}
        if endpoint == self.options.throttled and operation == "health":
            return 200, {"jobs": {"inQueue": self.waiting()}, "workers": {"running": 0, "throttled": 2}}
        if operation.startswith("runsync?"):
            return await self.runsync(endpoint, headers, body)
        return await self.operate(method, endpoint, operation, remote_id, headers, body)

    async def operate(
        self, method: str, endpoint: str, operation: str, remote_id: str, headers: dict[str, str], body: bytes
    ) -> tuple[int, dict[str, Any]] | None:
        if (method, operation) == ("POST", "run"):
            return await self.run(endpoint, headers, body)
        if (method, operation) == ("GET", "health"):
            return 200, {"jobs": {"completed": 0}, "workers": {"running": 1}}
        job = self.jobs.get(remote_id)
        if job is None:
            return 404, {"error": "job not found"}
        match method, operation:
            case "GET", "status":
                return 200, job.record()
            case "POST", "retry" if job.status == "FAILED":
                self.begin(job)
            case "POST", "cancel" if job.status == "IN_QUEUE":
                job.status = "CANCELLED"
                self.count("cancelled")
            case _:
                return 400, {"error": "not now"}
        return 200, {"id": job.id, "status": job.status}

    # --- jobs

    def waiting(self) -> int:
        """How many jobs are in the queue of the endpoint that is throttled."""
        return sum(job.endpoint == self.options.throttled and job.status == "IN_QUEUE" for job in self.jobs.values())

    async def run(self, endpoint: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]] | None:
        options, number = self.options, len(self.accepted)
        if options.accept_max is not None and number >= options.accept_max:
            return options.refusal, {"error": "refused"}
        asked = json.loads(body)
        if asked["input"].get("reject"):
            # Services like to repeat what they were told.
            return 400, {"error": f"bad request: {headers['authorization']} {body.decode()}"}
        chance = random.Random(f"{options.seed} {number}")
        job = Job(f"{chance.getrandbits(64):016x}-u1", asked, endpoint)
        self.jobs[job.id] = job
        self.accepted.append(asked["input"])
        self.count("accepted")
        self.count(f"accepted at {endpoint}")
        if endpoint != options.throttled and (not options.hold or asked["input"].get("eager")):
            self.begin(job)
        if options.silent:
            self.count("dropped")
            await anyio.sleep_forever()
        if chance.random() < options.answers_dropped:
            self.count("dropped")
            return None
        self.answered.append(job.id)
        await anyio.sleep(options.answer_after_s)
        return 200, {"id": job.id, "status": job.status}

    async def runsync(self, endpoint: str, headers: dict[str, str], body: bytes) -> tuple[int, dict[str, Any]] | None:
        """The answer is held until the job has ended."""
        answer = await self.run(endpoint, headers, body)
        if answer is None or (job := self.jobs.get(answer[1].get("id", ""))) is None:
            return answer
        while job.status == "IN_QUEUE":
            await self.progress.wait()
        return 200, job.record()

    def begin(self, job: Job) -> None:
        job.status = "IN_QUEUE"
        job.executions += 1
        delay_s = random.Random(f"{job.id} {job.executions}").uniform(*self.options.finish_after_s)
        asyncio.get_running_loop().call_later(delay_s, self.finish, job)

    def finish(self, job: Job) -> None:
        if job.status != "IN_QUEUE":
            return
        job.status = "FAILED" if job.executions <= job.body["input"].get("failures", 0) else "COMPLETED"
        self.count("finished")
        asyncio.get_running_loop().call_later(self.options.retention_s, self.jobs.pop, job.id, None)
        if url := job.body.get("webhook"):
            chance = random.Random(f"hook {job.id} {job.executions}")
            for _ in range(self.options.hook_copies):
                if chance.random() < self.options.hooks_lost:
                    self.count("hooks_lost")
                else:
                    self.group.start_soon(self.tell, url, job.record() | {"input": job.body["input"], "webhook": url})

    def change(self, options: dict[str, Any]) -> None:
        was_held = self.options.hold
        self.options = Options(**(vars(self.options) | options))
        if was_held and not self.options.hold:
            for job in list(self.jobs.values()):
                if job.executions == 0:
                    self.begin(job)

    # --- webhooks

    async def tell(self, url: str, record: dict[str, Any]) -> None:
        _, _, address, path = url.split("/", 3)
        host, _, port = address.rpartition(":")
        body = json.dumps(record).encode()
        head = f"POST /{path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n\r\n"
        for _ in range(self.options.hook_tries):
            try:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(head.encode() + body)
                answer = await reader.readline()
                writer.close()
            except OSError:
                answer = b""
            if b" 200 " in answer:
                self.count("hooks_taken")
                return
            self.count("hooks_refused")
            await anyio.sleep(self.options.hook_gap_s)


async def serve(options: Options) -> None:
    """Serves until standard input ends."""
    ended = anyio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), ended.set)
    async with anyio.create_task_group() as group:
        service = Service(options, group)
        server = await asyncio.start_server(service.connected, "127.0.0.1", 0, backlog=1024)
        print(server.sockets[0].getsockname()[1], flush=True)
        await ended.wait()
        group.cancel_scope.cancel()


def main() -> None:
    """The process."""
    anyio.run(serve, Options(**json.loads(sys.stdin.readline())))


if __name__ == "__main__":
    main()
