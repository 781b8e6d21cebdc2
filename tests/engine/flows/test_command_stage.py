"""Commands as stages: once all before them is over, with files in, rows out, and several tries."""

import json
import os
import signal
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from orchestrator.api.flows.command_rows import printed_rows, read_line
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.jobs.transitions import reopened
from orchestrator.core.pipelines.flow_lifecycle import FlowState
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.engine.flows.command_output import CommandFailed, PrintedLine
from orchestrator.units import SECOND_US
from tests.api.flows.test_stages import ended, handed_over, service, three_stages, triggered
from tests.engine.flowing import flowing
from tests.simulation.clock import EPOCH_AT, VirtualClock
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REPORT = r"""
echo "reading $1" >&2
echo "{\"lines\": $(cat "$1" "$2" | wc -l), \"flow\": \"$ORCHESTRATOR_FLOW\", \"fire\": \"$ORCHESTRATOR_FIRE\"}"
echo '{"custom_id": "of-r2", "parents": ["r2", "r2/0"], "output": [1.50]}'
"""


def reporting(folder: Path, script: str = REPORT, *, rows: int = 3, **more: Any) -> Pipeline:
    """Three stages, of which the last one is a shell script."""
    pipeline = three_stages(folder, rows=rows, first=more.pop("first", "spread"))
    (folder / "report.sh").write_text(script)
    caption, embed, _ = pipeline.stages
    embed = replace(embed, settings={**embed.settings, "output": ("embedded.jsonl",)})
    command = ("sh", "report.sh", "{file:caption}", "{file:embed}")
    settings = {"output": ("report.jsonl",), "max-attempts": ("2",)}
    report = Stage(name="report", from_=("caption", "embed"), command=command, settings=settings, **more)
    return replace(pipeline, stages=(caption, embed, report))


async def test_a_command_is_given_the_files_and_its_lines_are_rows(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, reporting(tmp_path))
        await p.idle()

        assert await p.states() == {name: "succeeded"}
        lines = [json.loads(line) for line in (tmp_path / "report.jsonl").read_text().splitlines()]
        assert [(line["custom_id"], line["output"]) for line in lines] == [
            ("report/0", {"lines": 3 + 6, "flow": name, "fire": "2026-01-01T00:00:00Z"}),
            ("of-r2", [1.5]),
        ]
        assert "[1.50]" in (tmp_path / "report.jsonl").read_text()
        rows = await ended(p, f"{name}/report")
        parents = (await p.ledger.flows.lineage.parents([row.job for row in rows])).get(rows[1].job, ())
        of = await p.ledger.jobs.of(parents)
        assert len(of) == 2
        assert await handed_over(p, f"{name}/caption", f"{name}/report") == [0, 1, 0]
        assert await handed_over(p, f"{name}/embed", f"{name}/report") == [0, 1, 0, 0, 0, 0]


async def test_what_a_command_leaves_running_holds_nobody_up_and_is_told_of(tmp_path: Path) -> None:
    said: list[str] = []
    script = "sleep 20 & echo $! > left; echo '{\"n\": 1}'; printf 'one\\ntwo' >&2"
    try:
        rows = await printed_rows(["sh", "-c", script], tmp_path, {"PATH": os.defpath}, said.append)
    finally:
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert [row.output for row in rows] == [b'{"n":1}']
    assert said[:2] == ["one", "two"]
    assert "has ended and left processes running" in said[2]


async def test_rows_of_a_command_are_handed_on(tmp_path: Path) -> None:
    pipeline = reporting(tmp_path)
    index = Stage(name="index", from_=("report",), step="steps.py:keep", settings={"endpoint": (ENDPOINT,)})
    with (tmp_path / "steps.py").open("a") as steps:
        steps.write("\n\ndef keep(row):\n    return {'kept': row['custom_id']}\n")
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, replace(pipeline, stages=(*pipeline.stages, index)))
        await p.idle()
        assert await p.states() == {name: "succeeded"}
        assert [row.custom_id for row in await ended(p, f"{name}/index")] == ["report/0", "of-r2"]


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo tried >> tries; echo no >&2; exit 3", "has ended with exit code 3: no (tried 2 times)"),
        ("echo tried >> tries; kill -9 $$", "was killed by SIGKILL"),
        ("echo tried >> tries; echo '{}'; echo '{'", "line 2 of what sh prints is no row"),
        ('echo tried >> tries; echo \'{"parents": ["r9"]}\'', "names 'r9', which it was not given"),
        (
            'echo tried >> tries; echo \'{"custom_id": "a"}\'; echo 1; echo \'{"custom_id": "a", "n": 2}\'',
            "rows 1 and 3 of what it prints are both called 'a'",
        ),
        ('echo tried >> tries; echo \'{"custom_id": "report/1"}\'; echo 1', "are both called 'report/1'"),
    ],
)
async def test_a_command_that_fails_is_a_failed_job_after_its_tries(tmp_path: Path, script: str, why: str) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, reporting(tmp_path, script))
        await p.idle()

        assert await p.states() == {name: "failed"}
        [row] = await ended(p, f"{name}/report")
        assert (row.custom_id, row.trouble) == ("all", "step")
        assert why in (row.message or "")
        assert (tmp_path / "tries").read_text() == "tried\n" * 2
        assert any("tried again in 10 s" in warning for warning in p.warnings)
        assert await handed_over(p, f"{name}/caption", f"{name}/report") == [0, 0, 0]


def ledger_files(folder: Path) -> list[bytes]:
    return [file.read_bytes() for file in folder.glob("l.db*")]


async def test_no_secret_that_a_command_says_is_kept_or_told(tmp_path: Path) -> None:
    """They are given our environment, and the ends of what they say are kept."""
    environ = {"HOOK": f"a-very-{30 * 'secret-word'}", "PATH": os.defpath}
    said = "a=$HOOK"
    failing = f'echo "{said}" >&2; for n in $(seq 99); do printf "%s " "$HOOK" >&2; done; exit 3'
    async with flowing(tmp_path, transport=service(), environ=environ, key_variables=environ.keys() - {"PATH"}) as p:
        name = await triggered(p, reporting(tmp_path, f'echo "{said}" >&2; echo "[\\"{said}\\"]"'))
        await p.idle()
        assert await p.states() == {name: "succeeded"}
        assert "a=[env:HOOK]" in (tmp_path / "report.jsonl").read_text()
        assert any(line.endswith("a=[env:HOOK]") for line in p.lines)
        (tmp_path / "report.sh").write_text(failing)
        again = await triggered(p, reporting(tmp_path, failing), at=EPOCH_AT + SECOND_US)
        await p.idle()
        [row] = await ended(p, f"{again}/report")
        assert "exit code 3: [env:HOOK]" in (row.message or "")
        printing = {"input": None, "input_command": ("sh", "-c", f'echo "{said}" >&2; exit 3')}
        third = await triggered(p, replace(reporting(tmp_path), **printing), at=EPOCH_AT + 2 * SECOND_US)
        await p.idle()
        assert (await p.flow(third)).why.endswith("has ended with exit code 3: a=[env:HOOK]")
        assert "very-secret" not in "\n".join((*p.lines, *p.warnings))
    assert not [file for file in ledger_files(tmp_path) if b"secret-word" in file]


async def test_tries_are_counted_across_processes(tmp_path: Path) -> None:
    """And anew once its job is queued again."""
    transport, clock = service(), VirtualClock()
    async with flowing(tmp_path, transport=transport, clock=clock) as p:
        name = await triggered(p, reporting(tmp_path, "echo tried >> tries; exit 3"))
        await anyio.sleep(5)
        assert (tmp_path / "tries").read_text() == "tried\n"
        p.engine.groups.in_flight.cancel_scope.cancel()
    async with flowing(tmp_path, transport=transport, clock=clock) as p:
        await p.idle()
        assert await p.states() == {name: "failed"}
        assert (tmp_path / "tries").read_text() == "tried\n" * 2

        [row] = await ended(p, f"{name}/report")
        [job] = (await p.ledger.jobs.of([row.job])).values()
        assert await p.ledger.writer.step(reopened(job, at=p.ledger.now()))
        p.scheduler.on_change()
        await anyio.sleep(60)
        assert (tmp_path / "tries").read_text() == "tried\n" * 4
        assert await p.states() == {name: "failed"}


async def test_too_few_rows_hold_the_flow_before_its_command(tmp_path: Path) -> None:
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, reporting(tmp_path, rows=4, first="spread_or_fail", needs=990_000))
        await p.idle()
        flow = await p.flow(name)
        assert flow.state is FlowState.ON_HOLD
        assert flow.why == "1 of the 11 rows for report have failed, more than needs allows"
        assert not (tmp_path / "report.jsonl").exists()

        assert await p.ledger.flows.proceed(flow.id)
        p.scheduler.on_change()
        await anyio.sleep(60)
        assert await p.states() == {name: "partial"}
        assert len(await ended(p, f"{name}/report")) == 2


@pytest.mark.parametrize("ends", ["before", "after"])
async def test_a_flow_held_before_its_command_goes_on_with_rows_that_were_queued_again(
    tmp_path: Path, ends: str
) -> None:
    """Whether somebody has it go on before these have ended, or after."""
    async with flowing(tmp_path, transport=service()) as p:
        name = await triggered(p, reporting(tmp_path, rows=4, first="spread_or_fail", needs=990_000))
        await p.idle()
        flow = await p.flow(name)
        assert flow.state is FlowState.ON_HOLD
        failed = [job.job for job in await ended(p, f"{name}/embed") if job.state is State.FAILED]
        with (tmp_path / "steps.py").open("a") as steps:
            steps.write("\n\nspread_or_fail = spread\n")
        for job in (await p.ledger.jobs.of(failed)).values():
            assert await p.ledger.writer.step(reopened(job, at=p.ledger.now()))
        if ends == "after":
            await anyio.sleep(60)
        assert await p.ledger.flows.proceed(flow.id)
        p.scheduler.on_change()
        await anyio.sleep(60)

        assert await p.states() == {name: "succeeded"}
        assert len(await ended(p, f"{name}/report")) == 2


async def test_a_command_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="no-such-program cannot be run"):
        await printed_rows(["no-such-program"], tmp_path, {}, print)


@pytest.mark.parametrize(
    ("line", "row"),
    [
        (b"3", PrintedLine(None, b"3", ())),
        (b'{"a": 1.0}', PrintedLine(None, b'{"a":1.0}', ())),
        (b'{"custom_id": "x", "a": 1}', PrintedLine("x", b'{"a":1}', ())),
        (b'{"parents": ["y"], "output": null, "a": 1}', PrintedLine(None, b"null", ("y",))),
    ],
)
def test_what_a_line_says(line: bytes, row: PrintedLine) -> None:
    assert read_line(line) == row


@pytest.mark.parametrize("line", [b'{"custom_id": 1}', b'{"custom_id": ""}', b'{"parents": "y"}', b"{", b"1 2"])
def test_what_is_no_row(line: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        read_line(line)
