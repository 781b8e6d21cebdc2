"""Flows of one stage, from their fire to their results, and what can come between."""

import hashlib
import json
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.core.flows import FlowKind
from orchestrator.units import MINUTE_US, SECOND_US
from tests.engine.flowing import a_pipeline, accepting, completing, flowing
from tests.engine.scripted import Asked, Reply, Scripted, says
from tests.ledger.pipelines import applied, every
from tests.simulation.clock import EPOCH_AT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.no_cover]

FIRST = "p@20260101T010000Z"
SECOND = "p@20260101T020000Z"


async def test_a_fire_becomes_a_run_with_its_results_written_and_its_input_told_by_its_hash(tmp_path: Path) -> None:
    transport = completing()
    async with flowing(tmp_path, transport=transport) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(3_590)
        assert await p.states() == {}
        await anyio.sleep(11 + 20)
        assert await p.states() == {FIRST: "succeeded"}

        flow = await p.flow(FIRST)
        assert flow.started_at is not None
        assert flow.started_at - flow.fire_at <= SECOND_US
        run = await p.ledger.runs.named(f"{FIRST}/caption")
        assert run is not None
        [stage] = await p.ledger.flows.stages([flow.id])
        content = (tmp_path / "in.jsonl").read_bytes()
        assert (stage.run, stage.sha256) == (run.id, hashlib.sha256(content).hexdigest())
        assert stage.source == str(tmp_path / "in.jsonl")
        assert run.settings.errors == str(tmp_path / f"out-{FIRST}.jsonl.errors.jsonl")  # so that it may be replaced
    assert len(transport.of("run")) == 2
    lines = (tmp_path / f"out-{FIRST}.jsonl").read_text().splitlines()
    assert [json.loads(line)["output"] for line in lines] == [1, 1]
    assert (tmp_path / f"out-{FIRST}.jsonl.errors.jsonl").read_text() == ""


async def test_one_runs_at_a_time_in_the_order_of_fires_and_a_backfill_behind_them(tmp_path: Path) -> None:
    transport = Scripted(run=accepting(), status=lambda asked: says("IN_PROGRESS", asked.remote_id))
    async with flowing(tmp_path, transport=transport) as p:
        of = await applied(p.ledger, a_pipeline(tmp_path, every(0.1)), now=p.ledger.now())
        await p.ledger.flows.add(of.id, "p", of.definition, [EPOCH_AT], FlowKind.BACKFILL)
        p.scheduler.on_change()
        await anyio.sleep(3 * 360 + 60)
        assert list((await p.states()).values()) == ["running", "running", "waiting", "waiting"]
        transport.scripts["status"] = lambda asked: says("COMPLETED", asked.remote_id, output=1)
        await anyio.sleep(250)
        assert list((await p.states()).values()) == ["succeeded"] * 4


async def test_a_flow_waits_for_its_input_and_fails_without_it(tmp_path: Path) -> None:
    pipeline = a_pipeline(tmp_path, every(0.5), input_="late.jsonl", wait_for_input_us=10 * MINUTE_US)
    async with flowing(tmp_path) as p:
        await applied(p.ledger, pipeline, now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(32 * 60)
        assert list((await p.states()).values()) == ["running"]
        (tmp_path / "in.jsonl").rename(tmp_path / "late.jsonl")
        await anyio.sleep(120)
        assert list((await p.states()).values()) == ["succeeded"]
        (tmp_path / "late.jsonl").unlink()
        await anyio.sleep(39 * 60)
        [flow] = await p.ledger.flows.latest(1)
        assert flow.state == "failed"
        assert flow.why == f"{tmp_path}/late.jsonl: the input is not there after 10 min (wait-for-input)"
        assert flow.ended_at is not None
        assert flow.started_at is not None
        assert 0 <= flow.ended_at - flow.started_at - 10 * MINUTE_US <= 6 * SECOND_US
    assert any("has failed" in line for line in p.warnings)


async def test_an_input_that_a_command_prints_and_one_whose_command_fails(tmp_path: Path) -> None:
    script = 'echo "{{\\"input\\": {{\\"n\\": 1, \\"told\\": \\"$ORCHESTRATOR_FIRE $ORCHESTRATOR_PREVIOUS $ORCHESTRATOR_FLOW {flow}\\"}}}}"'
    printing = {"input": None, "input_command": ("sh", "-c", script)}
    failing = {"input": None, "input_command": ("sh", "-c", "echo no data yet >&2; exit 3")}
    transport = completing()
    async with flowing(tmp_path, transport=transport) as p:
        good = msgspec.structs.replace(a_pipeline(tmp_path, every(1)), **printing)
        await applied(p.ledger, good, now=p.ledger.now())
        await applied(p.ledger, msgspec.structs.replace(good, name="q", **failing), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(3_700)
        states = await p.states()
        assert states == {FIRST: "succeeded", FIRST.replace("p@", "q@"): "failed"}
        failed = await p.flow(FIRST.replace("p@", "q@"))
        assert failed.why == "the input-command sh ended with exit code 3: no data yet"
    [sent] = transport.of("run")
    told = f"2026-01-01T01:00:00Z 2026-01-01T00:00:00Z {FIRST} {FIRST}"
    assert json.loads(sent.body)["input"]["told"] == told


async def test_rows_that_are_none_fail_the_flow_and_name_the_line(tmp_path: Path) -> None:
    async with flowing(tmp_path) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(1)), now=p.ledger.now())
        (tmp_path / "in.jsonl").write_text('{"input": 1}\nno json\n')
        p.scheduler.on_change()
        await anyio.sleep(3_700)
        flow = await p.flow(FIRST)
        assert flow.state == "failed"
        assert "in.jsonl: 1 problem; nothing was sent" in flow.why
        assert "line 2" in flow.why
        assert await p.ledger.runs.names() == []


@pytest.mark.parametrize(("failing", "state"), [({1}, "partial"), ({1, 2}, "failed")])
async def test_a_flow_of_which_jobs_failed_is_partial_or_failed(tmp_path: Path, failing: set[int], state: str) -> None:
    async with flowing(tmp_path, transport=failing_for(failing)) as p:
        await applied(p.ledger, a_pipeline(tmp_path, every(1)), now=p.ledger.now())
        p.scheduler.on_change()
        await anyio.sleep(3_600 + 1_800)
        flow = await p.flow(FIRST)
        assert (flow.state, flow.why) == (state, f"{len(failing)} job{'s' * (len(failing) > 1)} of 2 without a result")


def failing_for(numbers: set[int]) -> Scripted:
    """A service at which jobs fail, by their numbers."""

    def status(asked: Asked) -> Reply:
        if int(asked.remote_id.rpartition("-")[2]) in numbers:
            return says("FAILED", asked.remote_id, error="no")
        return says("COMPLETED", asked.remote_id, output=1)

    return Scripted(run=accepting(), status=status)
