"""Flows of three stages, half of them with a command behind, killed at every commit: rows that become none to five, groups, steps and jobs that fail.

`python -m tests.firing.stages --seeds 3` plays each seed once without a crash, and then once for each of its commits,
before and after it. What is left has to be the same each time: each row that has ended was handed over once to each
stage behind it, with the number of rows that it became; nothing is owed; every row leads back to the input.
"""

import json
import random
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import ALL, INPUT, Pipeline, Stage
from orchestrator.units import WHOLE
from tests.api.flows.test_stages import Killing, triggered
from tests.engine.flowing import Flowing, a_pipeline, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.firing.handed_over import COUNTED_WRONGLY, FROM_NOWHERE, NOT_HANDED_OVER, REPEATED
from tests.raising import IN_THREADS
from tests.simulation.clock import VirtualClock
from tests.simulation.run import run, run_until_crash
from tests.simulation.world import ENDPOINT

STEPS = """
from tests.raising import raises


def spread(row):
    if row["input"]["raises"]:
        raises(row["input"]["raises"])
    return [{"of": row["custom_id"], "number": number} for number in range(row["output"])]


def total(rows):
    ids = [row["custom_id"] for row in rows]
    if len(ids) % 4 == 3:
        raise ValueError("three of four")
    return [{"ids": ids, "half": half} for half in range(len(ids) % 3)]
"""

REPORT = ("sed", 's/{{"custom_id":\\("[^"]*"\\)/{{"parents":[\\1]/', "{file:total}")
"""Prints each result with its parent."""

Ends = dict[str, Counter[tuple[str, str]]]
"""By stage, its rows and how they have ended."""


def how_it_raises(seed: int, row: int) -> str:
    """One of all the ways in which a step may end otherwise than by returning."""
    return random.Random(f"{seed}/{row}").choice(sorted(IN_THREADS))


def drawn(folder: Path, seed: int) -> Pipeline:
    """The pipeline of a seed, with its input."""
    chance = random.Random(seed)
    by = (ALL, INPUT, "caption")[seed % 3]
    sources = chance.choice([("embed",), ("caption", "embed")])
    needs = chance.choice([WHOLE, WHOLE // 2, 0])
    rows = [
        {
            "custom_id": f"r{n}",
            "input": {
                "fan": chance.randrange(6),
                "raises": how_it_raises(seed, n) if chance.random() < 0.15 else "",
                "fails": chance.random() < 0.15,
            },
        }
        for n in range(chance.randrange(3, 6))
    ]
    pipeline = a_pipeline(folder)
    (folder / "steps.py").write_text(STEPS)
    (folder / "in.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    settings = {"endpoint": (ENDPOINT,), "max-attempts": ("1",)}
    stages: tuple[Stage, ...] = (
        Stage(name="caption", from_=(INPUT,), settings=settings),
        Stage(name="embed", from_=("caption",), step="steps.py:spread", settings=settings),
        Stage(name="total", from_=sources, gather=by, step="steps.py:total", needs=needs, settings=settings),
    )
    if seed % 2:
        stages += (Stage(name="report", from_=("total",), command=REPORT, needs=0),)
    return Pipeline(name="p", folder=pipeline.folder, input="in.jsonl", stages=stages)


def service() -> Scripted:
    """Fails what says so, and every row called number 3."""
    inputs: dict[str, Any] = {}

    def accept(asked: Asked) -> Reply:
        remote = f"r-{len(inputs)}"
        inputs[remote] = json.loads(asked.body)["input"]
        return says("IN_QUEUE", remote)

    def status(asked: Asked) -> Reply:
        given = inputs[asked.remote_id]
        if given.get("fails") or given.get("number") == 3:
            return says("FAILED", asked.remote_id, error="as it was drawn")
        return says("COMPLETED", asked.remote_id, output=given.get("fan", given))

    return Scripted(run=accept, status=status)


async def life(folder: Path, seed: int, transport: Scripted, clock: VirtualClock, killing: Killing) -> None:
    """One process, from wherever the one before has come to the end."""
    async with flowing(folder, transport=transport, clock=clock, commits=killing) as p:
        if not await p.ledger.flows.latest(1):
            await triggered(p, drawn(folder, seed))
        p.scheduler.on_change()
        await p.idle()
        [flow] = await p.ledger.flows.latest(1)
        if flow.state is FlowState.ON_HOLD:
            await go_on(p, flow.id)


async def go_on(p: Flowing, flow: int) -> None:
    """Somebody goes on with a flow that is held, since it needs more rows."""
    assert await p.ledger.flows.proceed(flow)
    p.engine.host.control.on_change()
    p.scheduler.on_change()
    while True:
        seen = p.scheduler.changes
        if not await p.ledger.flows.live():
            return
        await p.scheduler.change(seen)


def ends(folder: Path) -> Ends:
    """How each row has ended, once nothing is found that should not be."""
    with closing(sqlite3.connect(folder / "l.db")) as connection:
        ask = partial(_asked, connection)
        assert ask("SELECT * FROM owed") == []
        assert ask("SELECT * FROM groups WHERE is_due = 1 OR open <> 0") == []
        assert ask("SELECT * FROM jobs WHERE ended_at IS NULL") == []
        assert ask(NOT_HANDED_OVER) == []
        assert ask(COUNTED_WRONGLY) == []
        assert ask(FROM_NOWHERE) == []
        assert ask(REPEATED) == []
        found: Ends = {}
        for run_name, custom_id, state in ask(
            "SELECT runs.name, custom_id, state FROM jobs JOIN runs ON runs.id = run_id"
        ):
            found.setdefault(run_name, Counter())[custom_id, state] += 1
        return found


def _asked(connection: sqlite3.Connection, query: str) -> list[Any]:
    return connection.execute(query).fetchall()


def killed_everywhere(folder: Path, seed: int, commits: Iterable[int], *, after: bool) -> int:
    """Plays the seed without a crash, and then with one at each of these commits; returns how many there were."""
    killing = Killing()
    whole = folder / "whole"
    whole.mkdir(parents=True)
    run(partial(life, whole, seed, service(), VirtualClock(), killing))
    expected = ends(whole)
    for deaths, commit in enumerate(commits):
        world = folder / str(commit)
        world.mkdir()
        given = (world, seed, service(), VirtualClock(), killing)
        killing.arm(commit, after=after)
        crashed_at_s = run_until_crash(partial(life, *given))
        killing.arm(0, after=after)
        if crashed_at_s is None:
            return deaths
        run(partial(life, *given), start_s=crashed_at_s)
        found = ends(world)
        assert found == expected, f"seed {seed}, killed {'after' if after else 'before'} commit {commit}"
    raise AssertionError("it never came to its end")


def main() -> None:
    seeds = int(sys.argv[sys.argv.index("--seeds") + 1]) if "--seeds" in sys.argv else 3
    for seed in range(seeds):
        for after in (False, True):
            with tempfile.TemporaryDirectory() as scratch:
                worlds = killed_everywhere(Path(scratch), seed, range(1, 100_000), after=after)
            print(f"seed {seed}: killed {'after' if after else 'before'} each of {worlds} commits, the same each time")


if __name__ == "__main__":
    main()
