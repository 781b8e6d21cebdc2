"""The cheapest service that there can be, in a process of its own: what is measured is the program, not its partner.

    python -m tests.benchmarks.stand_in BEHAVIOUR

`BEHAVIOUR` is a `Behaviour` as JSON. The process prints the port that it listens on, serves until its standard input
ends, and then prints what it saw, an `Observed` as JSON. It knows `/run`, `/runsync` and `/status` of one endpoint and believes
whatever it is told.
"""

import asyncio
import base64
import itertools
import random
import sys
import time
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Final, cast

import anyio
import msgspec

from tests.benchmarks.figures import quantile

HOOK_CONNECTIONS: Final = 256
"""Webhooks are posted over this many kept connections, one at a time on each: an answer takes a commit, and behind
another one on the same connection it would wait for two."""

_HEAD_END: Final = b"\r\n\r\n"
_WEBHOOK: Final = b'"webhook":"'
_LENGTH: Final = b"content-length:"
_IN_PROGRESS: Final = b'{"id":"%b","status":"IN_PROGRESS","delayTime":12}'
_LARGE: Final = b'{"delayTime":12,"executionTime":340,"id":"%b","output":{"data":"%b"},"status":"COMPLETED"}'
_HEALTH: Final = b'{"jobs":{"inProgress":%d,"inQueue":0},"workers":{"idle":%d,"running":%d,"throttled":0}}'
_SPREAD: Final = 0.618_033_988_749_895
"""Multiples of the golden ratio, without their whole part, fill 0 to 1 evenly, however many there are."""

_RECORD: Final = (
    b'{"delayTime":12,"executionTime":340,"id":"%b","input":{"prompt":"the input comes back"},'
    b'"output":{"text":"a caption of some forty letters and no more"},"status":"COMPLETED"}'
)


class Behaviour(msgspec.Struct, frozen=True, kw_only=True):
    """How the service is to behave."""

    webhooks: bool = False
    """Posts the webhook of each job once `/run` is answered, and again where the connection ends without an answer."""

    hooks_kept: bool = True
    """Posts them over kept connections; else over a new one for each."""

    answer_ms: tuple[float, float] = (0.0, 0.0)
    """Answers come after a time between these."""

    execution_s: float = 0.0
    """A job has finished so long after its `/run`."""

    workers: int = 0
    """So many each endpoint says to have, and how many of them work; none: it says nothing of itself."""

    limits: tuple[int, int, float] | None = None
    """Requests of `/run`, and of `/status` as of `/runsync`, in any so many seconds (an exact sliding log); the others
    get 429.
    """

    status: int = 200
    """What `/run` is answered; 401 ends the program once its intake is done."""

    output_bytes: tuple[int, int] | None = None
    """Outputs have sizes between these, as many from 1 to 2 MB as from 2 to 4 MB; None: each is the same short one."""

    cut_share: float = 0.0
    """So many of the answers that bring a result end in the middle of it."""


class Runs(msgspec.Struct):
    """The `/run` requests to one endpoint that were not answered 429."""

    number: int = 0
    first_at: float = 0.0
    last_at: float = 0.0

    def count(self, now: float) -> None:
        """One came at `now`."""
        self.number += 1
        self.first_at, self.last_at = self.first_at or now, now

    @property
    def per_s(self) -> float:
        """How many came a second."""
        return (self.number - 1) / (self.last_at - self.first_at)


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What the service saw. Times are seconds since its start."""

    runs: int
    """`/run` requests that were not answered 429."""

    first_run_s: float | None
    last_run_s: float | None
    first_status_at: float | None
    """The first question for a job, by the clock that all processes of a machine share (`time.perf_counter`)."""
    endpoints: dict[str, Runs]
    held: int
    """`/runsync` requests that were not answered 429."""

    throttled: int
    """429s given."""

    cut: int
    """Answers that ended in the middle."""

    webhooks: int
    """Webhooks answered 200, and the time from the first byte sent to the answer (from connecting, where connections
    are not kept, and with every repetition):"""

    webhook_p50_ms: float | None
    webhook_p99_ms: float | None
    webhook_max_ms: float | None
    webhooks_repeated: int


class SlidingLog:
    """The latest `seconds` of what was let through, exactly."""

    def __init__(self, requests: int, seconds: float) -> None:
        self._requests = requests
        self._seconds = seconds
        self._log: deque[float] = deque()

    def lets_through(self, now: float) -> bool:
        """Whether a request that arrives at `now` is within the limit; if so, it counts."""
        while self._log and self._log[0] <= now - self._seconds:
            self._log.popleft()
        if len(self._log) >= self._requests:
            return False
        self._log.append(now)
        return True


class Service:
    """What all connections share."""

    def __init__(self, behaviour: Behaviour, poster: "Poster") -> None:
        self.loop = asyncio.get_running_loop()
        self._behaviour = behaviour
        self._poster = poster
        self._numbers = itertools.count(1)
        self._random = random.Random(1)
        self._data = base64.b64encode(self._random.randbytes((behaviour.output_bytes or (0, 0))[1]))
        runs, statuses, seconds = behaviour.limits or (sys.maxsize, sys.maxsize, 1.0)
        self._logs: dict[bytes, defaultdict[bytes, SlidingLog]] = {
            b"run": defaultdict(lambda: SlidingLog(runs, seconds)),
            b"runsync": defaultdict(lambda: SlidingLog(statuses, seconds)),
            b"status": defaultdict(lambda: SlidingLog(statuses, seconds)),
        }
        self._is_counting = behaviour.limits is not None
        self._finish_at: dict[bytes, float] = {}
        self._unknown_finish_at = time.perf_counter() + behaviour.execution_s
        self._working_until: defaultdict[bytes, deque[float]] = defaultdict(deque)
        self.runs: defaultdict[str, Runs] = defaultdict(Runs)
        self.first_status_at: float | None = None
        self.throttled = self.cut = self.held = 0

    def take(self, head: bytes, body: bytes, write: Callable[[bytes], None], cut: Callable[[bytes], None]) -> None:
        """Answers one request: it is to `write` all that there is to say, or to `cut` the connection behind that."""
        now = time.perf_counter()
        endpoint = head.split(b"/", 3)[2]
        operation = b"status"
        if head.startswith(b"POST"):
            operation = b"runsync" if b"/runsync?" in head else b"run"
        if self._is_counting and not self._logs[operation][endpoint].lets_through(now):
            self.throttled += 1
            write(response(429, b"{}"))
        elif operation == b"runsync":
            self.held += 1
            self._hold(body, write)
        elif operation == b"run":
            self.runs[endpoint.decode()].count(now)
            if self._behaviour.workers:
                self._working_until[endpoint].append(now + self._behaviour.execution_s)
            self._run(body, write)
        else:
            remote_id = head[: head.index(b" HTTP/")].rpartition(b"/")[2]
            if self.first_status_at is None and remote_id != b"health":
                self.first_status_at = now
            if remote_id == b"health":  # a key that is refused is refused everywhere
                self._later(write, response(self._behaviour.status, self._health(endpoint, now)))
                return
            has_finished = now >= self._finish_at.get(remote_id, self._unknown_finish_at)
            if has_finished and self._random.random() < self._behaviour.cut_share:
                whole = response(200, self._record(remote_id))
                self.cut += 1
                self._later(cut, whole[: len(whole) * 2 // 3])
            else:
                self._later(write, response(200, self._record(remote_id) if has_finished else _IN_PROGRESS % remote_id))

    def _health(self, endpoint: bytes, now: float) -> bytes:
        if not self._behaviour.workers:
            return b'{"jobs":{},"workers":{}}'
        until = self._working_until[endpoint]
        while until and until[0] <= now:
            until.popleft()
        return _HEALTH % (len(until), self._behaviour.workers - len(until), len(until))

    def _run(self, body: bytes, write: Callable[[bytes], None]) -> None:
        remote_id = b"job-%d" % next(self._numbers)
        self._later(write, response(self._behaviour.status, b'{"id":"%b","status":"IN_QUEUE"}' % remote_id))
        execution_s = self._behaviour.execution_s
        if execution_s:
            self._finish_at[remote_id] = time.perf_counter() + execution_s
        if self._behaviour.webhooks and (start := body.rfind(_WEBHOOK)) >= 0:
            start += len(_WEBHOOK)
            url, record = body[start : body.index(b'"', start)], self._record(remote_id)
            if execution_s:
                self.loop.call_later(execution_s, self._poster.post, url, record)
            else:
                self._poster.post(url, record)

    def _hold(self, body: bytes, write: Callable[[bytes], None]) -> None:
        record = self._record(b"job-%d" % next(self._numbers))
        self.loop.call_later(self._behaviour.execution_s, self._later, write, response(200, record))
        if self._behaviour.webhooks and (start := body.rfind(_WEBHOOK)) >= 0:
            start += len(_WEBHOOK)
            url = body[start : body.index(b'"', start)]
            self.loop.call_later(self._behaviour.execution_s, self._poster.post, url, record)

    def _record(self, remote_id: bytes) -> bytes:
        """What is said of a job that has finished: of the same one always the same."""
        if self._behaviour.output_bytes is None:
            return _RECORD % remote_id
        least, most = self._behaviour.output_bytes
        share = int(remote_id.removeprefix(b"job-")) * _SPREAD % 1
        size = int(least * (most / least) ** share)
        start = int(share * (len(self._data) - size))
        return _LARGE % (remote_id, self._data[start : start + size])

    def _later(self, write: Callable[[bytes], None], answer: bytes) -> None:
        least, most = self._behaviour.answer_ms
        if most:
            self.loop.call_later(self._random.uniform(least, most) / 1000, write, answer)
        else:
            write(answer)


def response(status: int, body: bytes) -> bytes:
    """A whole answer."""
    return b"HTTP/1.1 %d -\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (
        status,
        len(body),
        body,
    )


class Messages(asyncio.Protocol):
    """A connection that takes HTTP messages apart."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._buffer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while (end := self._buffer.find(_HEAD_END)) >= 0:
            head, start = self._buffer[:end], end + len(_HEAD_END)
            lowered = head.lower()
            at = lowered.find(_LENGTH)
            length = int(lowered[at + len(_LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(self._buffer) < start + length:
                return
            body, self._buffer = self._buffer[start : start + length], self._buffer[start + length :]
            self.message(head, body)

    def message(self, head: bytes, body: bytes) -> None:
        raise NotImplementedError


class Connection(Messages):
    """A client's connection."""

    def __init__(self, service: Service) -> None:
        super().__init__()
        self._service = service

    def message(self, head: bytes, body: bytes) -> None:
        self._service.take(head, body, self._write, self._cut)

    def _write(self, data: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(data)

    def _cut(self, data: bytes) -> None:
        self._write(data)
        self.transport.close()


class Post:
    """A webhook to be posted."""

    __slots__ = ("request", "since")

    def __init__(self, request: bytes) -> None:
        self.request = request
        self.since: float | None = None


class Poster:
    """Posts webhooks, in order; the connections are opened when the first one is due."""

    def __init__(self, *, kept: bool) -> None:
        self.seconds: list[float] = []
        self.repeated = 0
        self._kept = kept
        self._queue: deque[Post] = deque()
        self._idle: list[HookConnection] = []
        self._open = 0
        self._address: tuple[str, int] | None = None
        self._due = anyio.Event()

    def post(self, url: bytes, body: bytes) -> None:
        """Posts `body` to `url` (`http://HOST:PORT/PATH`)."""
        _, _, host, path = url.split(b"/", 3)
        if self._address is None:
            name, _, port = host.decode().rpartition(":")
            self._address = name, int(port)
        head = b"POST /%b HTTP/1.1\r\nHost: %b\r\nContent-Type: application/json\r\n" % (path, host)
        if not self._kept:
            head += b"Connection: close\r\n"
        self._queue.append(Post(b"%bContent-Length: %d\r\n\r\n%b" % (head, len(body), body)))
        if self._idle:
            self._idle.pop().post(self._queue.popleft())
        else:
            self._due.set()

    def answered(self, post: Post, connection: "HookConnection", *, ok: bool) -> None:
        """`connection` has brought the answer to `post`, and is free for the next one."""
        assert post.since is not None
        if ok:
            self.seconds.append(time.perf_counter() - post.since)
        if not self._kept:
            return
        if self._queue:
            connection.post(self._queue.popleft())
        else:
            self._idle.append(connection)

    def lost(self, connection: "HookConnection | None", post: Post | None) -> None:
        """A connection has ended, or could not be made; without an answer to `post`, where it had one."""
        self._open -= 1
        if connection in self._idle:
            self._idle.remove(connection)
        if post is not None:
            self.repeated += 1
            self._queue.appendleft(post)
        if self._queue:
            self._due.set()

    async def serve(self) -> None:
        """Opens connections as they are needed."""
        async with anyio.create_task_group() as group:
            while True:
                await self._due.wait()
                self._due = anyio.Event()
                while self._open < HOOK_CONNECTIONS and (self._kept or self._queue):
                    self._open += 1
                    group.start_soon(self._connect, self._queue.popleft() if self._queue else None)

    async def _connect(self, post: Post | None) -> None:
        assert self._address is not None
        if post is not None and post.since is None:
            post.since = time.perf_counter()
        try:
            await asyncio.get_running_loop().create_connection(lambda: HookConnection(self, post), *self._address)
        except OSError:
            self.lost(None, post)

    def connected(self, connection: "HookConnection", post: Post | None) -> None:
        """A connection is open, for `post` or for whatever comes."""
        if post is None and self._queue:
            post = self._queue.popleft()
        if post is not None:
            connection.post(post)
        else:
            self._idle.append(connection)


class HookConnection(Messages):
    """A connection to the program's listener."""

    def __init__(self, poster: Poster, first: Post | None) -> None:
        super().__init__()
        self._poster = poster
        self._post = first

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._poster.connected(self, self._post)

    def connection_lost(self, exc: Exception | None) -> None:
        self._poster.lost(self, self._post)

    def post(self, post: Post) -> None:
        """Sends one webhook."""
        self._post = post
        if post.since is None:
            post.since = time.perf_counter()
        self.transport.write(post.request)

    def message(self, head: bytes, body: bytes) -> None:
        post, self._post = self._post, None
        assert post is not None
        self._poster.answered(post, self, ok=head.split(b" ", 2)[1] == b"200")


async def serve(behaviour: Behaviour) -> Observed:
    """Serves until standard input ends."""
    loop = asyncio.get_running_loop()
    started, ended, poster = time.perf_counter(), anyio.Event(), Poster(kept=behaviour.hooks_kept)
    service = Service(behaviour, poster)
    server = await loop.create_server(lambda: Connection(service), "127.0.0.1", 0)
    loop.add_reader(sys.stdin.fileno(), ended.set)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with anyio.create_task_group() as group:
        group.start_soon(poster.serve)
        await ended.wait()
        group.cancel_scope.cancel()
    server.close()
    return Observed(
        runs=sum(runs.number for runs in service.runs.values()),
        first_run_s=min((runs.first_at - started for runs in service.runs.values()), default=None),
        last_run_s=max((runs.last_at - started for runs in service.runs.values()), default=None),
        endpoints=service.runs,
        first_status_at=service.first_status_at,
        held=service.held,
        throttled=service.throttled,
        cut=service.cut,
        webhooks=len(poster.seconds),
        webhook_p50_ms=1000 * quantile(poster.seconds, 0.50) if poster.seconds else None,
        webhook_p99_ms=1000 * quantile(poster.seconds, 0.99) if poster.seconds else None,
        webhook_max_ms=1000 * max(poster.seconds) if poster.seconds else None,
        webhooks_repeated=poster.repeated,
    )


def main() -> None:
    """The process."""
    try:
        import uvloop  # noqa: F401
    except ImportError:
        options = {}
    else:
        options = {"use_uvloop": True}
    behaviour = msgspec.json.decode(sys.argv[1], type=Behaviour)
    observed = anyio.run(serve, behaviour, backend_options=options)
    sys.stdout.buffer.write(msgspec.json.encode(observed))


if __name__ == "__main__":
    main()
