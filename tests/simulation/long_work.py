"""Work that outlives its worker, as a script: what a worker reports, when, and how it ends.

A job of so many seconds' work goes on from the checkpoint that its input's `resume` holds, reports how far it is, and
gives the job back when its time is up. It may be killed, or hang. The script is pure: a simulated service plays it.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from orchestrator.emulator.jobs.jobs import WorkerResult
from orchestrator.emulator.workers.handlers import HandlerInput, encode
from orchestrator.units import SECOND_US

KILLED = "the worker was killed"


class Act(NamedTuple):
    """What a worker does so long after its beginning."""

    after_us: int
    report: bytes | None
    """How far it is, as JSON."""

    result: WorkerResult | None
    """Its end; None before that."""

    is_done: bool = False
    """Whether that is the end of the work."""


class LongWork(msgspec.Struct, frozen=True, kw_only=True):
    """How jobs are worked on. All times are of the service, in seconds."""

    work_s: float
    report_every_s: float
    checkpoint_every_s: float
    killed_after_s: float | None = None
    """Each worker is killed so long after it has begun with a job."""

    stalls_after_s: float | None = None
    """Each worker hangs from then on."""

    def acts(self, raw_input: bytes) -> Iterator[Act]:
        """The script of one execution. It ends with a result, or the worker hangs for ever."""
        resume = json.loads(raw_input).get("resume") or {}
        saved_s = first_s = (resume.get("checkpoint") or {}).get("done_s", 0.0)
        soft_s = resume.get("soft_s", float("inf"))
        ends_s = min(self.work_s - first_s, soft_s, self.killed_after_s or float("inf"))
        number = 0
        while (at_s := (number + 1) * self.report_every_s) < ends_s:
            if self.stalls_after_s is not None and at_s >= self.stalls_after_s:
                return
            number += 1
            done_s = first_s + at_s
            saved_s = max(saved_s, done_s // self.checkpoint_every_s * self.checkpoint_every_s)
            report = {
                "seq": number,
                "progress": done_s / self.work_s,
                "message": f"{done_s:.0f} s of {self.work_s:.0f}",
            }
            yield Act(round(at_s * SECOND_US), encode({**report, "checkpoint": {"done_s": saved_s}}), None)
        if self.stalls_after_s is not None and ends_s >= self.stalls_after_s:
            return
        result = self._end(first_s + ends_s, ends_s, resume)
        yield Act(round(ends_s * SECOND_US), None, result, is_done=first_s + ends_s >= self.work_s)

    def _end(self, done_s: float, at_s: float, resume: HandlerInput) -> WorkerResult:
        if done_s >= self.work_s:
            return WorkerResult(output=encode({"done_s": self.work_s, "segment": resume.get("segment", 0)}))
        if self.killed_after_s is not None and at_s >= self.killed_after_s:
            return WorkerResult(error=KILLED)
        return WorkerResult(output=encode({"unfinished": True, "checkpoint": {"done_s": done_s}}))
