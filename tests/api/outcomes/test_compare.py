"""The files of a run beside its ledger: each line in its file, once, in its place, and as the ledger has it."""

import json
import os
import shutil
import sqlite3
from collections.abc import Callable, Collection
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import msgspec
import pytest

from orchestrator.api.admin.run_export import export_run
from orchestrator.api.outcomes.audit import Flaw
from orchestrator.api.outcomes.result_files import write_files
from orchestrator.api.outcomes.result_lines import results
from orchestrator.api.outcomes.verify import Verification, verify
from orchestrator.clock import SystemClock
from orchestrator.core.jobs import transitions
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, read_ledger
from orchestrator.settings.command_requests import ResultsRequest, VerifyRequest
from orchestrator.settings.output_settings import OutputSettings
from orchestrator.settings.words_and_defaults import Include, ResultOrder
from orchestrator.stores.object_url import location_of
from tests.factories import SETTINGS, S, an_outcome
from tests.ledger.ledgers import a_run, gone, job_now, opened
from tests.simulation.clock import EPOCH_AT
from tests.simulation.run import run
from tests.stores.web_server import WebObject, serving

JOBS = 8
RESULTS, ERRORS = (1, 3, 4, 6, 7), (2, 5)
TRACEBACK = 'Traceback (most recent call last):\n  File "h.py", line 3, in handler\n    work()\nValueError: bad seed\n'
"""Jobs by how they ended; the last one has not."""


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger `db`, and the files `out` and `err` that were written from it, made once."""
    folder = tmp_path_factory.mktemp("original")

    async def make() -> None:
        async with opened(folder / "db") as ledger:
            made = await a_run(ledger, JOBS)
            for job in (*RESULTS, *ERRORS):
                await end(ledger, job)
            await write_files(ledger, made.id, folder / "out", folder / "err")

    run(make)
    return folder


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """The same for a test of its own."""
    return shutil.copytree(original, tmp_path / "folder")


async def end(ledger: Ledger, job: int) -> None:
    await gone(ledger, await job_now(ledger, job), "claimed", "accepted", at=EPOCH_AT + job * S)
    sent = await job_now(ledger, job)
    outcome = an_outcome(sent, FailureClass.FAILED, message=TRACEBACK) if job in ERRORS else an_outcome(sent)
    outcome = msgspec.structs.replace(outcome, worker=f"w-{job}")
    if job in ERRORS:
        step = transitions.abandoned(sent, outcome, reason="told", at=EPOCH_AT + job * S + S // 2)
    else:
        step = transitions.completed(sent, outcome, reason="told", at=EPOCH_AT + job * S + S // 2)
    await ledger.writer.apply([step])


def verified(folder: Path, *, name: str | None = None, complete: bool = False) -> Verification:
    output, errors = folder / "out", folder / "err"
    request = VerifyRequest(ledger=folder / "db", name=name, output=output, errors=errors, complete=complete)
    return anyio.run(verify, request, lambda *_: None)


def wrong(folder: Path) -> list[str]:
    """What is said of the files, without the folder."""
    findings = verified(folder).findings
    assert {finding.kind for finding in findings} <= {Flaw.FILES}
    return [example.replace(f"{folder}/", "") for finding in findings for example in finding.examples]


def edit(path: Path, change: Callable[[list[str]], object]) -> list[str]:
    """Changes the lines of a file; returns those that were there."""
    lines = path.read_text().splitlines(keepends=True)
    changed = list(lines)
    change(changed)
    path.write_text("".join(changed))
    return lines


def id_of(line: str) -> str:
    return line.split('"')[3]


def test_files_as_they_were_written_are_fine(folder: Path) -> None:
    verification = verified(folder)

    assert verification.ok
    assert verification.files is not None
    assert (verification.files.results, verification.files.errors, verification.files.newer) == (5, 2, 0)


async def write_again(folder: Path, include: Collection[Include]) -> None:
    async with read_ledger(folder / "db", clock=SystemClock()) as ledger:
        [made] = await ledger.runs.all()
        await write_files(ledger, made.id, folder / "out", folder / "err", include=include)


@pytest.mark.parametrize("include", [*((each,) for each in Include), tuple(Include)])
def test_files_that_carry_more_are_fine_too_and_what_they_carry_is_compared(
    folder: Path, include: tuple[Include, ...]
) -> None:
    anyio.run(write_again, folder, include)
    assert verified(folder).ok

    edit(folder / "err", lambda lines: lines.__setitem__(0, lines[0].replace("}\n", " }\n")))
    assert wrong(folder) == [f"line 1 of err is not what the ledger has for {id_of((folder / 'err').read_text())}"]


def test_each_row_carries_what_was_asked_for(folder: Path) -> None:
    plain = [json.loads((folder / name).read_text().splitlines()[0]) for name in ("out", "err")]
    anyio.run(write_again, folder, tuple(Include))
    result, error = (json.loads((folder / name).read_text().splitlines()[0]) for name in ("out", "err"))

    assert {**result, **plain[0]} == result
    assert error.pop("error") == {**plain[1].pop("error"), "text": TRACEBACK}
    assert {**error, **plain[1]} == error
    more = ("line", "worker", "sent_at", "ended_at", "input")
    assert [result[each] for each in more] == [
        1,
        "w-1",
        "2026-01-01T00:00:01.000000Z",
        "2026-01-01T00:00:01.500000Z",
        {"line": 1},
    ]
    assert [error[each] for each in (*more[:2], "delay_ms", "input")] == [2, "w-2", None, {"line": 2}]


def test_the_error_of_a_worker_is_its_type_and_message(folder: Path) -> None:
    error = json.loads((folder / "err").read_text().splitlines()[0])["error"]

    assert error == {"class": "failed", "message": "ValueError: bad seed"}


def test_a_line_that_was_taken_out_is_missed(folder: Path) -> None:
    lines = edit(folder / "out", lambda lines: lines.pop(2))
    last = edit(folder / "err", lambda lines: lines.pop())[-1]

    assert wrong(folder) == [
        f"out has no line for {id_of(lines[2])}, or not in its place",
        f"err has no line for {id_of(last)}, or not in its place",
    ]


def test_a_changed_line_and_a_foreign_one_are_told_with_their_numbers(folder: Path) -> None:
    def change(lines: list[str]) -> None:
        lines[1] = lines[1].replace('"attempts":1', '"attempts":2')
        lines.insert(3, "not JSON\n")
        lines.append('{"custom_id":"nobody"}\n')

    lines = edit(folder / "out", change)

    assert wrong(folder) == [
        f"line 2 of out is not what the ledger has for {id_of(lines[1])}",
        "line 4 of out is none of ours: not JSON",
        "line 7 of out is for nobody, which is no job of this run",
    ]


def test_a_line_that_stands_twice_or_in_the_other_file_is_one_too_many(folder: Path) -> None:
    failure = (folder / "err").read_text().splitlines(keepends=True)[0]

    def change(lines: list[str]) -> None:
        lines.insert(1, lines[0])
        lines.insert(3, failure)

    lines = edit(folder / "out", change)

    assert wrong(folder) == [
        f"line 2 of out is for {id_of(lines[0])}, which stands there twice or out of order",
        f"line 4 of out is for {id_of(failure)}, which is failed",
    ]


def test_lines_out_of_order_are_told(folder: Path) -> None:
    lines = edit(folder / "out", lambda lines: lines.append(lines.pop(0)))

    assert wrong(folder) == [
        f"out has no line for {id_of(lines[0])}, or not in its place",
        f"line 5 of out is for {id_of(lines[0])}, which stands there twice or out of order",
    ]


def test_jobs_that_ended_after_the_files_were_written_are_counted_and_not_missed(folder: Path) -> None:
    async def go_on() -> None:
        async with opened(folder / "db") as ledger:
            await end(ledger, JOBS)

    run(go_on)
    written_s = (EPOCH_AT + JOBS * S) / S
    for name in ("out", "err"):
        os.utime(folder / name, (written_s, written_s))

    verification = verified(folder)

    assert verification.ok
    assert verification.files is not None
    assert verification.files.newer == 1
    out_lacks, *_ = verification.files.lacks
    assert out_lacks.endswith(" lacks 1 job that ended after it was written")
    incomplete = verified(folder, complete=True)
    assert [finding.examples for finding in incomplete.findings] == [verification.files.lacks]


def test_which_run_the_files_are_of_has_to_be_said_where_there_are_several(folder: Path) -> None:
    async def another() -> None:
        async with opened(folder / "db") as ledger:
            await a_run(ledger, 1, name="another")

    run(another)

    with pytest.raises(UsageError, match="name the run that you mean; there is: run, another"):
        verified(folder)
    with pytest.raises(UsageError, match="no run called 'third'"):
        verified(folder, name="third")
    assert verified(folder, name="run").ok

    async def known() -> None:
        async with opened(folder / "db") as ledger:
            settings = msgspec.structs.replace(SETTINGS, output=str(folder / "out"), errors=str(folder / "err"))
            await ledger.runs.configure(1, settings, before=SETTINGS)

    run(known)
    assert verified(folder).ok, "it was written to that file last"


@pytest.mark.anyio
async def test_a_store_that_says_nothing_holds_up_nothing_else_whatever_is_asked_of_it(folder: Path) -> None:
    data = (folder / "out").read_bytes()

    async def verified_there(url: str) -> Verification:
        request = VerifyRequest(ledger=folder / "db", name="run", output=location_of(url), errors=folder / "err")
        return await verify(request, lambda *_: None)

    async def is_heard(answered_before: int) -> None:
        with serving(WebObject(data, silent_after=[-1] * 9, answered_before=answered_before)) as silent:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(verified_there, silent.url)
                await anyio.to_thread.run_sync(silent.stalled.wait)
                silent.silent_after.clear()
                silent.over.set()
                tasks.cancel_scope.cancel()

    with serving(WebObject(data)) as served:
        assert (await verified_there(served.url)).ok
    with anyio.fail_after(20):
        async with anyio.create_task_group() as group:
            for number in range(len(served.asked)):
                group.start_soon(is_heard, number)


def test_an_exported_file_is_known_with_its_run_and_its_filter(folder: Path) -> None:
    async def export(where: str, order: ResultOrder) -> None:
        writing = OutputSettings(order=order)
        await export_run(folder / "db", "run", folder / "x", folder / "x.errors.jsonl", where=where, writing=writing)

    async def another() -> None:
        async with opened(folder / "db") as ledger:
            await a_run(ledger, 1, name="other")

    run(another)
    request = VerifyRequest(ledger=folder / "db", output=folder / "x", errors=folder / "x.errors.jsonl")
    for where, order in (("", ResultOrder.COMPLETION), ("line>3", ResultOrder.INPUT)):
        anyio.run(export, where, order)
        found = anyio.run(verify, request, lambda *_: None)
        assert [each for each in found.findings if each.kind is Flaw.FILES] == []
        assert found.files is not None
        assert (found.files.results + found.files.errors < 7) is bool(where)
    edit(folder / "x", lambda lines: lines.pop())
    found = anyio.run(verify, request, lambda *_: None)
    assert [each.kind for each in found.findings if each.kind is Flaw.FILES] == [Flaw.FILES]


def test_a_file_that_is_not_there_is_a_wrong_command(folder: Path) -> None:
    (folder / "err").unlink()

    with pytest.raises(UsageError, match=r"err: cannot be read \(No such file or directory\)"):
        verified(folder)


def test_without_files_the_ledger_alone_is_looked_at(folder: Path) -> None:
    verification = anyio.run(partial(verify, progress=lambda *_: None), VerifyRequest(ledger=folder / "db"))

    assert verification.ok
    assert verification.files is None


def test_a_job_whose_result_came_after_the_files_were_written_is_not_yet_in_them(folder: Path) -> None:
    """It still stands in the errors file as it had ended before."""

    async def result_comes() -> None:
        async with opened(folder / "db") as ledger:
            await gone(ledger, await job_now(ledger, 2), "completed", at=EPOCH_AT + 10**10 * S)

    run(result_comes)
    assert wrong(folder) == []
    files = verified(folder).files
    assert files is not None
    assert files.newer == 1


LARGE = b'"' + b"large enough to be packed " * 400 + b'"'


def test_an_output_that_is_damaged_in_the_ledger_stands_among_the_errors_and_stops_no_other(tmp_path: Path) -> None:
    async def make() -> None:
        async with opened(tmp_path / "db") as ledger:
            made = await a_run(ledger, 3)
            for job in (1, 2, 3):
                (step,) = (
                    await gone(ledger, await job_now(ledger, job), "claimed", "accepted", at=EPOCH_AT + job * S)
                )[1:]
                outcome = an_outcome(step.after, output=LARGE)
                await ledger.writer.step(
                    transitions.completed(step.after, outcome, reason="status", at=EPOCH_AT + 9 * S)
                )
            with closing(sqlite3.connect(tmp_path / "db")) as connection:
                connection.execute("UPDATE outcomes SET output = zeroblob(99) WHERE job_id = 2")
                connection.commit()
            await write_files(ledger, made.id, tmp_path / "out", tmp_path / "err")

    run(make)

    first, third = map(json.loads, (tmp_path / "out").read_bytes().splitlines())
    assert {first["output"], third["output"]} == {json.loads(LARGE)}
    (damaged,) = map(json.loads, (tmp_path / "err").read_bytes().splitlines())
    assert damaged["error"]["class"] == "invalid_output"
    assert "damaged in the ledger" in damaged["error"]["message"]
    for is_errors, name in ((False, "out"), (True, "err")):
        lines: list[bytes] = []
        request = ResultsRequest(ledger=tmp_path / "db", name="run", errors=is_errors)
        anyio.run(results, request, lines.append)
        assert b"".join(lines) == (tmp_path / name).read_bytes()
    verification = verified(tmp_path)
    assert [(found.kind, found.count) for found in verification.findings] == [(Flaw.CHECKSUM, 1)]
