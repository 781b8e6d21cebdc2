"""The worker's side of resumable jobs. Copy this file into your image: it needs nothing but Python 3.10.

    from worker import LongJob

    def handler(job):
        with LongJob(job) as long:
            state = load(long.checkpoint)          # None at the very beginning
            for epoch in range(state.epoch, 100):
                train(state)
                long.report(progress=epoch / 100, message=f"epoch {epoch}", checkpoint=save(state, long.place))
                if long.time_is_up:
                    return long.unfinished()
            return {"model": state.url}

Each `report` repeats the last checkpoint, since who asks sees the latest report only. There is no thread that reports
by itself: a handler that hangs has to look like one. On leaving the block the reports under way are waited for, because
the service would take one that overtakes the result for news of a job that is still in progress.
"""

import json
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final

CHECKPOINT_BYTES_MAX: Final = 64 * 1024
"""A checkpoint is for what a job goes on from, not for a model: put large data into storage, and their address here."""

ORDER_S_MAX: Final = 10.0
"""So long a report waits for the one before it, so that they arrive in order."""

WAIT_S_MAX: Final = 600.0
"""So long the end of a job waits for its reports: as long as the official worker tries to send one."""

_SENDER: Final = "_thread_target"
"""What the threads are named after that send the official worker's reports."""

_KEPT: Final = object()

Update = Callable[[dict[str, Any], Any], object]
"""Sends a report: `runpod.serverless.progress_update`, or one like it."""


class LongJob:
    """One execution of a job that may take longer than any: it begins with `checkpoint`, and reports how far it is.

    `job` is what the handler was given. `update` sends the reports; without it, it is that of whoever runs the handler:
    the official worker, or the emulator. A job that was not sent as a resumable one has no checkpoint, and its time is
    never up.
    """

    def __init__(self, job: dict[str, Any], *, update: Update | None = None) -> None:
        resume: Mapping[str, Any] = job["input"].get("resume") or {}
        self._job = job
        self._update = _update_of(job) if update is None else update
        self._checkpoint: Any = resume.get("checkpoint")
        self._soft_at: float = time.monotonic() + resume.get("soft_s", float("inf"))
        self._until: float = resume.get("until", float("inf"))
        self._seq = 0
        self._sending: list[threading.Thread] = []
        self.key: str = resume.get("key") or str(job.get("id", ""))
        """Names the job, the same in each of its executions and different from that of every other job."""

        self.segment: int = resume.get("segment", 1)
        """Which execution this is. Of each number there is one; earlier ones may still be running."""

    def __enter__(self) -> "LongJob":  # noqa: PYI034  Self came with Python 3.11
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()

    @property
    def checkpoint(self) -> Any:
        """What to go on from: at first that of the execution before, None if there is none; then what was reported."""
        return self._checkpoint

    @property
    def place(self) -> str:
        """A folder of this execution alone, as in `key/segment`: an earlier one may still write to its own."""
        return f"{self.key}/{self.segment}"

    @property
    def time_is_up(self) -> bool:
        """Whether to return `unfinished()` now: soon the service would end the execution, and nobody had its end."""
        return time.monotonic() >= self._soft_at or time.time() >= self._until

    def report(self, progress: float | None = None, message: str | None = None, *, checkpoint: Any = _KEPT) -> None:
        """Says how much is done (0 to 1), in words, and what another execution can go on from (anything that is JSON).

        Without a checkpoint the last one stands. Raises `ValueError` for one of more than 64 KiB.
        """
        self._keep(checkpoint)
        self._seq += 1
        said: dict[str, Any] = {"seq": self._seq, "checkpoint": self._checkpoint}
        if progress is not None:
            said["progress"] = progress
        if message is not None:
            said["message"] = message
        self.wait(ORDER_S_MAX)
        before = set(threading.enumerate())
        self._update(self._job, said)
        self._sending += [each for each in threading.enumerate() if each not in before and _is_sender(each)]

    def unfinished(self, *, checkpoint: Any = _KEPT) -> dict[str, Any]:
        """What the handler returns to be continued by another execution, from the checkpoint: it should be a newer one
        than this execution began with, or the job has failed. Raises `ValueError` as `report` does.
        """
        self._keep(checkpoint)
        self.wait()
        return {"unfinished": True, "seq": self._seq + 1, "checkpoint": self._checkpoint}

    def wait(self, timeout_s: float = WAIT_S_MAX) -> None:
        """Returns once no report is under way any more. The end of the block does so by itself."""
        ends_at = time.monotonic() + timeout_s
        for thread in self._sending:
            thread.join(max(0.0, ends_at - time.monotonic()))
        self._sending = [thread for thread in self._sending if thread.is_alive()]

    def _keep(self, checkpoint: Any) -> None:
        if checkpoint is _KEPT:
            return
        size = len(json.dumps(checkpoint, ensure_ascii=False, separators=(",", ":")).encode())
        if size > CHECKPOINT_BYTES_MAX:
            raise ValueError(
                f"the checkpoint has {size:,} bytes, and none over {CHECKPOINT_BYTES_MAX:,} is taken: put the data into"
                " storage, and their address into the checkpoint"
            )
        self._checkpoint = checkpoint


def _is_sender(thread: threading.Thread) -> bool:
    """Whether `thread` sends a report of the official worker, which does not say which one that is. Another job's may
    have begun at the same time: to wait for it, too, does no harm.
    """
    return thread.daemon and _SENDER in thread.name


def _update_of(job: dict[str, Any]) -> Update:
    """What sends reports where `job` is executed; where nothing does, as in a test of the handler, they are dropped."""
    if type(job).__module__.startswith("orchestrator.") and "orchestrator.emulator" in sys.modules:
        update: Update = sys.modules["orchestrator.emulator"].progress_update
        return update
    if (runpod := sys.modules.get("runpod")) is None:
        return lambda _job, _said: None
    sends: Update = runpod.serverless.progress_update
    return sends
