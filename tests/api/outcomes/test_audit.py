"""An audit of a ledger: silent on every history that the program makes, and not on what others do to the file."""

import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.api.outcomes.audit import EXAMPLES_MAX, AuditCounts, AuditFinding, Findings, Flaw, audit_ledger
from orchestrator.core.jobs.lifecycle import State
from orchestrator.engine.maintenance.pruning import Pruner
from orchestrator.ledger import Ledger
from tests.factories import S
from tests.ledger.ledgers import PATHS, a_run, brought_to, gone, job_now, jobs_now, opened
from tests.simulation.clock import EPOCH_AT
from tests.simulation.run import run

AT = EPOCH_AT + S


async def with_every_state(ledger: Ledger) -> None:
    """A job in each state, one that went a long way, and an untouched one."""
    await a_run(ledger, len(State) + 2)
    for number, state in enumerate(PATHS, start=1):
        await brought_to(ledger, state, AT + number * 100 * S, job=number)
    long = ("claimed", "unanswered", "retried", "claimed", "accepted", "abandoned", "reopened", "claimed", "accepted")
    await gone(ledger, await job_now(ledger, len(State) + 1), *long, "completed", at=AT + 10_000 * S)


def made(path: Path, make: Callable[[Ledger], Awaitable[object]] = with_every_state) -> None:
    async def main() -> None:
        async with opened(path) as ledger:
            await make(ledger)

    run(main)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good ledger, made once."""
    path = tmp_path_factory.mktemp("original") / "db"
    made(path)
    return path


@pytest.fixture
def ledger(original: Path, tmp_path: Path) -> Path:
    """A good ledger of a test's own."""
    return Path(shutil.copy(original, tmp_path / "db"))


def audited(path: Path) -> tuple[dict[Flaw, AuditFinding], AuditCounts]:
    findings = Findings()

    async def main() -> AuditCounts:
        async with opened(path) as ledger:
            return await audit_ledger(ledger, findings, lambda *_: None)

    figures = run(main)
    return {finding.kind: finding for finding in findings.all()}, figures


def change(path: Path, sql: str) -> None:
    """What another program could do to the file."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute(sql)
        connection.commit()


def test_a_ledger_in_which_every_state_came_about_is_fine(ledger: Path) -> None:
    found, figures = audited(ledger)

    assert found == {}
    assert (figures.runs, figures.jobs, figures.outcomes, figures.checksums) == (1, 9, 4, 4)
    assert (figures.events, figures.submissions) == (22, 8)


OUTSTANDING, SUCCEEDED, FAILED, UNTOUCHED = 4, 5, 6, 9
"""Jobs of `with_every_state`."""


@pytest.mark.parametrize(
    ("sql", "kind", "what"),
    [
        (f"DELETE FROM outcomes WHERE job_id = {SUCCEEDED}", Flaw.OUTCOME, "is succeeded and has no outcome"),
        (
            f"INSERT INTO outcomes (job_id) VALUES ({UNTOUCHED})",
            Flaw.OUTCOME,
            "is queued and has an outcome",
        ),
        (
            f"UPDATE outcomes SET trouble = NULL WHERE job_id = {FAILED}",
            Flaw.OUTCOME,
            "is failed and its outcome is a result",
        ),
        (
            f"UPDATE outcomes SET submission_id = (SELECT min(id) FROM submissions) WHERE job_id = {SUCCEEDED}",
            Flaw.OUTCOME,
            "which is not one of its own",
        ),
        (
            f"UPDATE outcomes SET output = X'31' WHERE job_id = {SUCCEEDED}",
            Flaw.CHECKSUM,
            "is not what was collected",
        ),
        (f"UPDATE outcomes SET packed = 1 WHERE job_id = {SUCCEEDED}", Flaw.CHECKSUM, "is not what was collected"),
        (f"DELETE FROM payloads WHERE job_id = {UNTOUCHED}", Flaw.INPUT, "has no input"),
        (f"DELETE FROM events WHERE job_id = {SUCCEEDED}", Flaw.HISTORY, "is succeeded without any event"),
        (
            f"DELETE FROM events WHERE job_id = {SUCCEEDED} AND event = 'completed'",
            Flaw.HISTORY,
            "is succeeded, but its events (claimed,accepted) lead to outstanding",
        ),
        (
            f"DELETE FROM events WHERE job_id = {OUTSTANDING} AND event = 'claimed'",
            Flaw.HISTORY,
            "is outstanding, but its events (accepted) lead to nowhere",
        ),
        (f"UPDATE jobs SET attempt = 7 WHERE id = {FAILED}", Flaw.HISTORY, "attempt 7, but its last event"),
        (f"UPDATE jobs SET ended_at = 7 WHERE id = {FAILED}", Flaw.HISTORY, "ended at 7, but its last event"),
        ("UPDATE events SET job_id = 999 WHERE id = 1", Flaw.HISTORY, "there are events of job 999"),
        (
            f"UPDATE submissions SET job_id = {UNTOUCHED} WHERE job_id = {OUTSTANDING}",
            Flaw.SUBMISSION,
            "which is not one of its own",
        ),
        (
            f"UPDATE submissions SET remote_id = NULL WHERE job_id = {OUTSTANDING}",
            Flaw.SUBMISSION,
            "what the service calls it is not known",
        ),
        (
            f"UPDATE submissions SET job_id = 999 WHERE job_id = {OUTSTANDING}",
            Flaw.SUBMISSION,
            "belongs to a job that is not there",
        ),
        (
            "UPDATE counts SET n = n + 1 WHERE name = 'succeeded'",
            Flaw.COUNTS,
            "run run counts 3 jobs as succeeded, and has 2",
        ),
        (
            "UPDATE counts SET n = n + 1 WHERE name = 'uncertain_seen'",
            Flaw.COUNTS,
            "counts 3 unanswered submissions, and has events of 2",
        ),
        (
            "DELETE FROM jobs WHERE id = 9",
            Flaw.DAMAGE,
            "row 9 of payloads belongs to a row of jobs that is not there",
        ),
    ],
)
def test_what_others_do_to_the_tables_is_found(ledger: Path, sql: str, kind: Flaw, what: str) -> None:
    change(ledger, sql)

    found, _ = audited(ledger)

    assert any(what in example for example in found[kind].examples), found
    assert found[kind].advice


def test_outputs_of_an_older_program_have_no_checksum_and_are_no_finding(ledger: Path) -> None:
    change(ledger, "UPDATE outcomes SET checksum = NULL")

    found, figures = audited(ledger)

    assert (found, figures.outcomes, figures.checksums) == ({}, 4, 0)


def test_events_that_were_removed_for_their_age_are_not_missed(ledger: Path) -> None:
    latest = "SELECT max(id) FROM events GROUP BY job_id"
    ended = "SELECT id FROM jobs WHERE ended_at IS NOT NULL"
    change(ledger, f"DELETE FROM events WHERE job_id IN ({ended}) AND id NOT IN ({latest})")
    change(ledger, f"UPDATE runs SET pruned_before = {AT * 2}")

    assert audited(ledger)[0] == {}


class Later:
    """A clock of a year in which everything here is old."""

    def now(self) -> int:
        return AT + 400 * 86_400 * S


def test_what_the_janitor_has_left_of_old_histories_is_good_also_where_a_job_goes_on_from_there(ledger: Path) -> None:
    async def tidied(opened_: Ledger) -> None:
        while await Pruner(ledger=opened_, clock=Later()).run_once() is not None:
            pass

    async def reopened(opened_: Ledger) -> None:
        [failed] = [job for job in await jobs_now(opened_) if job.state is State.FAILED]
        await gone(opened_, failed, "reopened", "claimed", "accepted", at=AT + 20_000 * S)

    whole = audited(ledger)[1].events
    made(ledger, tidied)
    found, figures = audited(ledger)
    made(ledger, reopened)

    assert found == {}
    assert figures.events < whole
    assert audited(ledger)[0] == {}


def test_many_findings_are_counted_and_a_few_are_told(tmp_path: Path) -> None:
    made(tmp_path / "db", lambda ledger: a_run(ledger, 50))
    change(tmp_path / "db", "DELETE FROM payloads")

    found, _ = audited(tmp_path / "db")

    assert (found[Flaw.INPUT].count, len(found[Flaw.INPUT].examples)) == (50, EXAMPLES_MAX)


def test_damaged_pages_are_found_and_the_rest_is_looked_at_all_the_same(tmp_path: Path) -> None:
    made(tmp_path / "db", lambda ledger: a_run(ledger, 3_000))
    page = root_page(tmp_path / "db", "jobs")
    with (tmp_path / "db").open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(bytes(4096))

    found, figures = audited(tmp_path / "db")

    assert found.keys() == {Flaw.DAMAGE}
    assert any("page" in example or "Tree" in example for example in found[Flaw.DAMAGE].examples)
    assert any("the jobs cannot be read to their end" in example for example in found[Flaw.DAMAGE].examples)
    assert "orchestrator results" in found[Flaw.DAMAGE].advice
    assert figures.runs == 1


def root_page(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0])
