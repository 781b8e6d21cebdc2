"""A serve and three timers' ticks on one ledger, which are killed at random moments and begun again."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import anyio

from orchestrator.clock import SystemClock
from orchestrator.core.pipelines.pipeline import INPUT, Overlap, Pipeline, Schedule, Stage
from orchestrator.core.pipelines.schedule_calendar import fires_between
from orchestrator.engine.flows.schedule_evaluator import ScheduleEvaluator
from orchestrator.ledger import Ledger, open_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.units import HOUR_US, SECOND_US
from tests.firing.places import ALL, misplaced

ORCHESTRATOR: Final = str(Path(sys.executable).parent / "orchestrator")
PROCESSES: Final = (("serve",), ("tick",), ("tick",), ("tick",))
APART_S_MAX: Final = 0.6
SETTLED_S_MAX: Final = 120.0

ENDS: Final = frozenset({0, 3, 4, -signal.SIGKILL})
"""How they may end: done, nothing to be done before somebody does something, beside another one, killed."""


def pipelines(folder: Path) -> list[Pipeline]:
    """They fire so often that something does between two kills; of one, each flow fails at once."""

    def each(name: str, input_: str, seconds: int, overlap: Overlap) -> Pipeline:
        schedule = Schedule(every_us=seconds * SECOND_US, overlap=overlap, catch_up_us=HOUR_US)
        return Pipeline(name=name, folder=str(folder), input=input_, schedule=schedule, stages=_stages(folder))

    return [
        each("missing", "missing.jsonl", 1, Overlap.QUEUE),
        each("skipping", "in.jsonl", 2, Overlap.SKIP),
        each("latest", "in.jsonl", 3, Overlap.LATEST),
    ]


def _stages(folder: Path) -> tuple[Stage, ...]:
    return (Stage(name="s", from_=(INPUT,), settings={"endpoint": (f"local:{folder}/handler.py:echo",)}),)


def killed(folder: Path, kills: int, seed: int) -> list[str]:
    """Kills so often; returns what is wrong afterwards, and how the processes ended that must not."""
    (folder / "handler.py").write_text("def echo(job):\n    return job['input']\n")
    (folder / "in.jsonl").write_text('{"input": {"n": 1}}\n')
    ledger = folder / "l.db"
    anyio.run(_apply, ledger, pipelines(folder))
    chance = random.Random(seed)
    working = [_started(arguments, folder) for arguments in PROCESSES]
    problems: list[str] = []
    for _ in range(kills):
        time.sleep(chance.uniform(0, APART_S_MAX))
        place = chance.randrange(len(working))
        working[place].kill()
        for number, process in enumerate(working):
            if number == place or process.poll() is not None:
                if process.wait() not in ENDS:
                    problems.append(f"{PROCESSES[number]} ended with {process.returncode}")
                working[number] = _started(PROCESSES[number], folder)
    for process in working:
        process.kill()
        process.wait()
    anyio.run(pause_all, ledger)
    last = _started(("tick",), folder)
    if last.wait(timeout=SETTLED_S_MAX) not in ENDS:
        problems.append(f"the last tick ended with {last.returncode}")
    return [*problems, *anyio.run(checked, ledger)]


def _started(arguments: tuple[str, ...], folder: Path) -> "subprocess.Popen[bytes]":
    with (folder / "stderr.txt").open("ab") as heard:
        return subprocess.Popen(
            [ORCHESTRATOR, *arguments, "--ledger", "l.db", "--quiet"],
            cwd=folder,
            env={**os.environ, "ORCHESTRATOR_API_KEY": "a-key"},
            stdout=subprocess.DEVNULL,
            stderr=heard,
        )


@asynccontextmanager
async def _opened(path: LedgerAddress) -> AsyncIterator[Ledger]:
    """The ledger, which nobody works on."""
    async with open_ledger(path, clock=SystemClock()) as ledger, anyio.create_task_group() as group:
        await group.start(ledger.writer.serve)
        yield ledger
        group.cancel_scope.cancel()


async def _apply(path: Path, wanted: list[Pipeline]) -> None:
    async with _opened(path) as ledger:
        for each in wanted:
            assert await ledger.flows.pipelines.define(each, now=ledger.now())


async def pause_all(path: LedgerAddress) -> None:
    """Nothing fires any more, so that the last process comes to an end; what was due is in its place."""
    async with _opened(path) as ledger:
        looker = ScheduleEvaluator(ledger=ledger, say=lambda _: None, warn=lambda _: None)
        for each in await ledger.flows.pipelines.all():
            before = await looker.settle(each.name, now := ledger.now())
            assert before is not None
            await ledger.flows.pipelines.pause(before, now=now, until=None, note="the end")


async def checked(path: LedgerAddress) -> list[str]:
    """What is wrong with the fires and flows of all pipelines, once nothing goes on any more."""
    async with _opened(path) as ledger:
        found: list[str] = []
        for each in await ledger.flows.pipelines.all():
            assert each.pipeline.schedule is not None
            assert each.watermark is not None
            fires = fires_between(each.pipeline.schedule, each.name, each.applied_at, each.watermark.at_us, ALL)
            found += await misplaced(ledger, each, [fire.at_us for fire in fires])
        found += [f"{flow.name} is still {flow.state}" for flow in await ledger.flows.live()]
        for flow in await ledger.flows.latest(None):
            stages = await ledger.flows.stages([flow.id])
            runs = await ledger.runs.all([stage.run for stage in stages if stage.run is not None])
            names = sorted(run.name for run in runs if run.accepted)
            if flow.state == "succeeded" and names != sorted(f"{flow.name}/{stage.stage}" for stage in stages):
                found.append(f"{flow.name} has succeeded with the runs {names}")
        return found
