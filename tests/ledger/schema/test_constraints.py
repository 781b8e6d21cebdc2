"""The file defends the rules of the lifecycle by itself: each forbidden combination, written by hand."""

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.ledger.migrations import migrate
from orchestrator.ledger.schema.job_tables import AT_SERVICE, GIVEN_UP

Columns = Mapping[str, str | int | None]

SOUND: dict[State, Columns] = {
    State.QUEUED: {},
    State.SUBMITTING: {"submission_id": 5},
    State.UNCERTAIN: {"submission_id": 5},
    State.OUTSTANDING: {"submission_id": 5, "unfinished_at": 5},
    State.SUCCEEDED: {"ended_at": 9},
    State.FAILED: {"ended_at": 9, "trouble": "failed"},
    State.CANCELLED: {"ended_at": 9, "trouble": "cancelled"},
}

FORBIDDEN: list[tuple[str, State, Columns]] = [
    *(("jobs_at_service_have_submission", state, {"submission_id": None}) for state in sorted(AT_SERVICE)),
    *(("jobs_ended_iff_end", state, {"ended_at": None}) for state in sorted(TERMINAL)),
    *(("jobs_ended_iff_end", state, {"ended_at": 9}) for state in sorted(set(State) - TERMINAL)),
    *(("jobs_given_up_have_trouble", state, {"trouble": None}) for state in sorted(GIVEN_UP)),
    *(
        ("jobs_retry_before_outstanding", state, {"retry_until": 9})
        for state in sorted(set(State) - {State.QUEUED, State.SUBMITTING})
    ),
    ("jobs_outstanding_have_deadline", State.OUTSTANDING, {"unfinished_at": None}),
    ("jobs_state_known", State.QUEUED, {"state": "sleeping"}),
    *(("jobs_trouble_known", state, {"trouble": "bored"}) for state in State),
    *(
        ("jobs_counters_not_negative", State.QUEUED, {name: -1})
        for name in ("attempt", "failures", "lost", "uncertain", "expired", "deferrals")
    ),
]


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    migrate(tmp_path / "l.db")
    with closing(sqlite3.connect(tmp_path / "l.db")) as made:
        made.execute("PRAGMA foreign_keys = ON")
        made.execute("INSERT INTO endpoints (id, service_url, endpoint) VALUES (1, 'u', 'e')")
        made.execute("INSERT INTO runs (id, name, endpoint_id, source, settings, created_at) VALUES (1,'r',1,'-','',0)")
        yield made


def write(connection: sqlite3.Connection, state: State, columns: Columns) -> None:
    row: dict[str, str | int | None] = {
        "id": 1,
        "run_id": 1,
        "endpoint_id": 1,
        "custom_id": "a",
        "intake_id": 1,
        "line": 1,
    }
    row |= {"state": state.value, **SOUND[state], **columns}
    names, marks = ", ".join(row), ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO jobs ({names}) VALUES ({marks})", tuple(row.values()))


@pytest.mark.parametrize("state", State)
def test_a_sound_row_of_each_state_can_be_written(state: State, connection: sqlite3.Connection) -> None:
    write(connection, state, {})


@pytest.mark.parametrize("state", [State.QUEUED, State.SUBMITTING])
def test_a_retry_can_be_meant_until_it_is_outstanding(state: State, connection: sqlite3.Connection) -> None:
    write(connection, state, {"retry_until": 9})


@pytest.mark.parametrize("trouble", FailureClass)
def test_every_trouble_can_be_written(trouble: FailureClass, connection: sqlite3.Connection) -> None:
    write(connection, State.FAILED, {"trouble": trouble.value})
    connection.execute("INSERT INTO outcomes (job_id, trouble) VALUES (1, ?)", (trouble.value,))


@pytest.mark.parametrize(("name", "state", "columns"), FORBIDDEN)
def test_what_the_lifecycle_forbids_cannot_be_written(
    name: str, state: State, columns: Columns, connection: sqlite3.Connection
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=f"CHECK constraint failed: {name}"):
        write(connection, state, columns)


def test_an_outcome_knows_its_troubles_too(connection: sqlite3.Connection) -> None:
    write(connection, State.FAILED, {})
    with pytest.raises(sqlite3.IntegrityError, match="outcomes_trouble_known"):
        connection.execute("INSERT INTO outcomes (job_id, trouble) VALUES (1, 'bored')")


def test_a_custom_id_is_there_once_in_a_run(connection: sqlite3.Connection) -> None:
    write(connection, State.QUEUED, {})
    with pytest.raises(sqlite3.IntegrityError, match=r"jobs\.run_id, jobs\.custom_id"):
        write(connection, State.QUEUED, {"id": 2})


@pytest.mark.parametrize("columns", [{"run_id": 9}, {"endpoint_id": 9}])
def test_a_job_belongs_to_a_run_and_an_endpoint_that_are_there(
    columns: Columns, connection: sqlite3.Connection
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match="FOREIGN KEY"):
        write(connection, State.QUEUED, columns)
