"""A ledger of some nights of pipelines, made by the engine on virtual time against a service that a row's fate is told.

Everything that a fire can come to is in it: succeeded, partial, failed, held, missed, late, waiting, and messages that
nobody took. It is made once; each test gets a copy.
"""

import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import httpx

from orchestrator.core.pipelines.flow_lifecycle import FlowKind
from orchestrator.core.pipelines.pipeline import INPUT, Notify, Pipeline, Schedule, Stage
from orchestrator.ledger import Ledger
from orchestrator.units import MINUTE_US, SECOND_US, WHOLE
from tests.dashboard.harness import Dashboard, dashboard
from tests.engine.flowing import Flowing, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.pipelines import applied
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.world import ENDPOINT

HOSTILE: Final = "a/b @ <b>bold</b> \u202egpj.exe"
"""A name with a slash, an @, spaces, markup, and a mark that turns the direction of what follows."""

NIGHTS: Final = 2
NIGHT_S: Final = 300
"""A night of this ledger: as long as real ones its heartbeats alone would take minutes to make."""

PRICE: Final = "0.001"


def _pipeline(folder: Path, name: str, *fates: str, schedule: Schedule | None = None, **more: Any) -> Pipeline:
    path = folder / f"{'-'.join(fates)}.jsonl"
    path.write_text(
        "".join(
            json.dumps({"custom_id": f"row-{n}", "input": {"fate": fate, "n": n}}) + "\n"
            for n, fate in enumerate(fates)
        )
    )
    stage = more.pop("stage", {})
    settings = {"endpoint": (ENDPOINT,), "max-attempts": ("1",), "price-per-second": (PRICE,)}
    first = Stage(name="caption", from_=(INPUT,), settings=settings, **stage)
    stages = (first, *more.pop("further", ()))
    given = {"input": path.name, "schedule": schedule, "stages": stages, **more}
    return Pipeline(name=name, folder=str(folder), **given)


def _nightly(**more: Any) -> Schedule:
    return Schedule(every_us=NIGHT_S * SECOND_US, catch_up_us=2 * MINUTE_US, **more)


def pipelines(folder: Path) -> list[Pipeline]:
    """Each comes to something else."""
    merge = Stage(name="merge", from_=("caption",), command=("true",), needs=WHOLE)
    embed = Stage(name="embed", from_=("caption",), settings={"endpoint": ("embedder",), "max-attempts": ("1",)})
    return [
        _pipeline(folder, "captions", "ok", "ok", schedule=_nightly(), further=(embed,)),
        _pipeline(folder, HOSTILE, "ok", "bad", "ok", schedule=_nightly()),
        _pipeline(folder, "broken", "bad", "bad", schedule=_nightly(), notify=Notify(url="https://hooks.example/x")),
        _pipeline(folder, "strict", "ok", "bad", schedule=_nightly(), further=(merge,)),
        _pipeline(folder, "slow", "slow", schedule=_nightly(late_after_us=MINUTE_US)),
        _pipeline(folder, "by-hand", "ok"),
    ]


def service() -> Scripted:
    """Does with each row what it says."""
    numbers = itertools.count(1)

    def taken(asked: Asked) -> Reply:
        return says("IN_QUEUE", f"{json.loads(asked.body)['input'].get('fate', 'ok')}-{next(numbers)}")

    def stands(asked: Asked) -> Reply:
        fate = asked.remote_id.partition("-")[0]
        if fate == "bad":
            error = "ImportError: libcudnn.so.9"
            return says("FAILED", asked.remote_id, error=error, delayTime=10, executionTime=2_000)
        if fate == "slow":
            return says("IN_PROGRESS", asked.remote_id)
        return says("COMPLETED", asked.remote_id, output={"n": 1}, delayTime=10, executionTime=4_000)

    return Scripted(run=taken, status=stands)


@asynccontextmanager
async def _at_work(folder: Path, clock: VirtualClock) -> AsyncIterator[Flowing]:
    refusing = httpx.MockTransport(lambda _: httpx.Response(500))
    async with flowing(folder, transport=service(), clock=clock, receiver=refusing) as found:
        yield found


async def _apply(ledger: Ledger, folder: Path) -> None:
    for pipeline in pipelines(folder):
        await applied(ledger, pipeline, now=ledger.now())
    by_hand = await ledger.flows.pipelines.named("by-hand")
    assert by_hand is not None
    await ledger.flows.add(by_hand.id, "by-hand", by_hand.definition, [ledger.now()], FlowKind.TRIGGERED)


async def _live(folder: Path) -> VirtualClock:
    """Two nights, four in which nobody is there, and a while in which somebody is again."""
    clock = VirtualClock()
    async with _at_work(folder, clock) as found:
        await _apply(found.ledger, folder)
        await anyio.sleep(NIGHTS * NIGHT_S + 120)
    await anyio.sleep(4 * NIGHT_S)
    async with _at_work(folder, clock) as found:
        await anyio.sleep(90)
    return clock


_made: dict[str, bytes] = {}
_ended_at: list[int] = []


async def nights(folder: Path) -> tuple[Path, VirtualClock]:
    """A copy of the ledger, and a clock by which its last process has just ended."""
    path = folder / "l.db"
    if not _made:
        clock = await _live(folder)
        _ended_at.append(clock.now())
        _made.update(_files(folder))
    for name, body in _made.items():
        (folder / name).write_bytes(body)
    return path, clock_at(_ended_at[0])


def _files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in folder.glob("l.db*")}


def clock_at(at: int) -> VirtualClock:
    """A clock that shows that time now, and goes on."""
    return VirtualClock(epoch_at=EPOCH_AT + at - VirtualClock().now())


@asynccontextmanager
async def looking(
    folder: Path, *, later_us: int = 0, before: Callable[[Path], None] | None = None
) -> AsyncIterator[Dashboard]:
    """A dashboard of such a ledger, so much later."""
    path, clock = await nights(folder)
    clock.jump(later_us)
    if before is not None:
        before(path)
    async with dashboard(path, clock=clock) as site:
        yield site
