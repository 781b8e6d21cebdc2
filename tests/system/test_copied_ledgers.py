"""A ledger is copied to a server in the midst of a run, and back: it goes on there, and nothing is sent twice."""

import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from orchestrator.ledger.migrations import migrate
from tests.postgres.databases import Databases
from tests.system.processes import FAST, Desk, Program, Service

pytestmark = pytest.mark.system

JOBS: Final = 60
MANY: Final = 40_000
"""So many are copied in a second or so, in which there is time for Ctrl-C."""


@pytest.fixture
def server(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database in which there is no ledger yet."""
    with durable_databases.empty() as url:
        yield url


def interrupted(program: Program) -> None:
    program.signal(signal.SIGINT)
    ended = program.ended()
    assert ended.exit_code == 130, ended


@pytest.mark.slow
def test_a_run_goes_on_wherever_its_ledger_went(desk: Desk, service: Service, server: str) -> None:
    desk.inputs(JOBS)
    service.change(hold=True, accept_max=30, refusal=429)
    at_service = desk.start("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST)
    service.wait("accepted", 30)
    interrupted(at_service)
    there = desk.call("ledger", "copy", "orchestrator.db", server)
    assert there.exit_code == 0, there
    service.change(hold=False, accept_max=45)

    on_server = desk.start("resume", "prompts", "--ledger", server)
    service.wait("finished", 45)
    interrupted(on_server)
    back = desk.call("ledger", "copy", server, "back.db")
    assert back.exit_code == 0, back
    refused = desk.call("status", "--ledger", server)
    assert (refused.exit_code, "this ledger was copied to" in refused.stderr) == (2, True)

    service.change(accept_max=None)
    ended = desk.call("resume", "prompts", "--ledger", "back.db", "--output", "results.jsonl")
    assert ended.exit_code == 0, ended
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    assert service.counted("accepted") == JOBS
    assert desk.call("verify", "--ledger", "back.db").exit_code == 0


@pytest.mark.slow
def test_ctrl_c_in_the_midst_of_copying_leaves_all_as_it_was(desk: Desk, server: str) -> None:
    migrate(desk.folder / "many.db")
    with closing(sqlite3.connect(desk.folder / "many.db")) as file, file:
        file.execute("INSERT INTO endpoints (service_url, endpoint) VALUES ('u', 'e')")
        file.execute(
            "INSERT INTO runs (name, endpoint_id, source, settings, created_at, intake_accepted)"
            " VALUES ('r', 1, '-', CAST('{}' AS BLOB), 1, 1)"
        )
        file.executemany(
            "INSERT INTO jobs (run_id, endpoint_id, custom_id, intake_id, line) VALUES (1, 1, ?, 1, ?)",
            ((f"row-{n}", n) for n in range(MANY)),
        )
        file.execute("INSERT INTO counts VALUES (1, 'queued', ?)", (MANY,))
    for target in (server, "new.db"):
        program = desk.start("ledger", "copy", "many.db", target)
        program.until_said("copied, or compared")
        interrupted(program)
        left = desk.call("status", "--ledger", target)
        assert left.exit_code == (2 if target == "new.db" else 0), left
        assert desk.states("many.db") == {"queued": MANY}
        assert desk.call("status", "--ledger", "many.db").exit_code == 0
    assert not (desk.folder / "new.db").exists()
    assert desk.call("ledger", "copy", "many.db", server).exit_code == 0
