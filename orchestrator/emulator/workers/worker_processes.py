"""Workers that are processes of their own: they run the official worker and speak its protocol to the emulator.

Each gets the environment of the service's containers (as observed) and a clean HOME, where no key of the user's
would take precedence. One that is to go is asked by SIGTERM, and killed if it does not. One that does not listen when
a job of its is to stop is killed at once, with whatever else it does: the service stops the whole worker, too.
"""

import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

import anyio
import msgspec
from anyio.abc import Process, TaskGroup, TaskStatus

from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.job_api.worker_routes import WorkerApi
from orchestrator.emulator.jobs.endpoint_table import endpoint_of
from orchestrator.emulator.workers.handler_pool import kill_session

STOP_GRACE_S = 30.0
"""How long a worker may finish what it does once it is asked to go."""

LISTEN_GRACE_S = 5.0
"""How long a worker may take to hear that it is to stop a job."""

INHERITED = ("PATH", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "SYSTEMROOT")
"""What a worker sees of the emulator's own environment."""


class WorkerEnvironment(msgspec.Struct, frozen=True, kw_only=True):
    """What makes the official worker work for the emulator (as observed)."""

    key: str
    """What it signs with."""
    ping_interval_s: float
    template: Callable[[str], Mapping[str, str]]
    """What an endpoint's template adds."""

    def of(self, origin: str, endpoint: str, worker_id: str, home: str) -> dict[str, str]:
        """The variables of a worker of the emulator at `origin`."""
        base = f"{origin}/v2/{endpoint}"
        return {
            **{name: os.environ[name] for name in INHERITED if name in os.environ},
            "HOME": home,
            **self.template(endpoint_of(endpoint)),
            "RUNPOD_WEBHOOK_GET_JOB": f"{base}/job-take/$ID?gpu=CPU",
            "RUNPOD_WEBHOOK_POST_OUTPUT": f"{base}/job-done/$RUNPOD_POD_ID/$ID?gpu=CPU",
            "RUNPOD_WEBHOOK_POST_STREAM": f"{base}/job-stream/$RUNPOD_POD_ID/$ID?gpu=CPU",
            "RUNPOD_WEBHOOK_PING": f"{base}/ping/$RUNPOD_POD_ID?gpu=CPU",
            "RUNPOD_PING_INTERVAL": str(max(1000, round(self.ping_interval_s * 1000))),
            "RUNPOD_AI_API_KEY": self.key,
            "RUNPOD_POD_ID": worker_id,
            "RUNPOD_ENDPOINT_ID": endpoint_of(endpoint),
            "RUNPOD_POD_HOSTNAME": f"{worker_id}-emulated",
            "RUNPOD_DEBUG_LEVEL": "INFO",
            "RUNPOD_SKIP_AUTO_SYSTEM_CHECKS": "true",
            "RUNPOD_SKIP_GPU_CHECK": "true",
        }


class WorkerProcesses:
    """Starts and stops the worker processes that the world asks for.

    `output` is where their own output goes, a file descriptor or one of `subprocess`'s constants.
    """

    def __init__(
        self,
        command: Sequence[str],
        live: LiveWorld,
        *,
        api: WorkerApi,
        environment: WorkerEnvironment,
        listen_grace_s: float = LISTEN_GRACE_S,
        output: int = subprocess.DEVNULL,
    ) -> None:
        self._command = tuple(command)
        self._live = live
        self._fleet = live.world.endpoints.fleet
        self._api = api
        self._environment = environment
        self._listen_grace_s = listen_grace_s
        self._output = output
        self._running: dict[str, Process] = {}
        self._going: set[str] = set()
        self._tasks: TaskGroup | None = None
        self._home = ""
        self.origin = ""
        """Where the emulator is reached, `http://HOST:PORT`; must be set before the first worker starts."""

    async def serve(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Keep processes until cancelled; none of them outlives this."""
        with tempfile.TemporaryDirectory(prefix="orchestrator-worker-", ignore_cleanup_errors=True) as self._home:
            try:
                async with anyio.create_task_group() as self._tasks:
                    task_status.started()
                    await anyio.sleep_forever()
            finally:
                self._tasks = None

    def start(self, endpoint: str, worker_id: str) -> None:
        """Start the process of a new worker."""
        if self._tasks is not None:
            self._tasks.start_soon(self._run, endpoint, worker_id)

    def stop(self, endpoint: str, worker_id: str) -> None:
        """Ask a worker to go."""
        self._api.dismiss(endpoint, worker_id)
        self._going.add(worker_id)
        if self._tasks is not None and (process := self._running.get(worker_id)) is not None:
            self._tasks.start_soon(self._end, process)

    def expect_to_listen(self, endpoint: str, worker_id: str, heard: anyio.Event) -> None:
        """The worker has been told to stop a job, and sets `heard` when it has listened."""
        if self._tasks is not None and worker_id in self._running:
            self._tasks.start_soon(self._listen_or_die, endpoint, worker_id, heard)

    async def _run(self, endpoint: str, worker_id: str) -> None:
        await anyio.sleep(self._fleet(endpoint).scaling.cold_start_s / self._live.scale)
        if worker_id in self._going:
            self._going.discard(worker_id)
            return
        process = await anyio.open_process(
            self._command,
            env=self._environment.of(self.origin, endpoint, worker_id, self._home),
            stdin=subprocess.DEVNULL,
            stdout=self._output,
            stderr=self._output,
            start_new_session=True,  # Ctrl-C is the emulator's alone, and the process can be killed with its children
        )
        self._running[worker_id] = process
        try:
            await process.wait()
        finally:
            kill_session(process)
            with anyio.CancelScope(shield=True):
                await process.aclose()
            del self._running[worker_id]
            self._api.forget(worker_id)
        self._note_end(endpoint, worker_id)

    def _note_end(self, endpoint: str, worker_id: str) -> None:
        if worker_id in self._going:
            self._going.discard(worker_id)
        else:
            self._fleet(endpoint).crashed(worker_id, self._live.now())
        self._live.ring()

    async def _end(self, process: Process) -> None:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_GRACE_S):
            await process.wait()
        kill_session(process)

    async def _listen_or_die(self, endpoint: str, worker_id: str, heard: anyio.Event) -> None:
        with anyio.move_on_after(self._listen_grace_s):
            await heard.wait()
            return
        process = self._running.get(worker_id)
        if process is not None and worker_id not in self._going:
            self._going.add(worker_id)
            self._fleet(endpoint).remove(worker_id)
            self._live.ring()
            kill_session(process)
