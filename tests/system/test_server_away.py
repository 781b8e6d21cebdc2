"""The server of a ledger is killed while a process works on it, which waits, says so, and goes on."""

import re
import signal
from collections.abc import Iterator

import pytest

from tests.postgres.server import away, server_url
from tests.system.processes import FAST, Desk, Program, Service, looks

pytestmark = [pytest.mark.system, pytest.mark.slow]

JOBS = 40
STOPPED_S_MAX = 5.0
"""Two seconds, and what a busy machine takes."""


@pytest.fixture
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a ledger on a server for one test alone."""
    with server_url(tmp_path_factory.mktemp("server"), is_durable=True) as url:
        yield url


def begun(desk: Desk, service: Service, ledger: str) -> Program:
    """A run, all of whose jobs are at the service, and stay there."""
    service.change(hold=True)
    desk.inputs(JOBS)
    program = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--ledger", ledger,
        "--output", "results.jsonl", *FAST,
    )  # fmt: skip
    service.wait("accepted", JOBS)
    for _ in looks():
        [shown] = desk.call("status", "--ledger", ledger, "--json").summary
        if shown["jobs"]["outstanding"] == JOBS:
            return program
    raise AssertionError("the answers of the service were never written down")


def test_a_run_goes_on_once_it_is_back_and_nothing_is_paid_twice(desk: Desk, service: Service, ledger: str) -> None:
    program = begun(desk, service, ledger)
    with away(ledger):
        service.change(hold=False)
        program.until_said("nothing is sent; it is tried again")
    ended = program.ended()
    assert ended.exit_code == 0, ended
    assert re.search(r"Since 20\d\d-.*Z nothing is sent", ended.stderr)
    assert "the ledger can be used again, after " in ended.stderr
    assert len(desk.rows()) == JOBS
    assert service.counted("accepted") == JOBS


def test_one_that_follows_another_process_goes_on_too(desk: Desk, service: Service, ledger: str) -> None:
    serving = desk.start("serve", "--serverless-url", service.url, "--ledger", ledger, *FAST)
    serving.until_said("serving")
    following = begun(desk, service, ledger)
    with away(ledger):
        service.change(hold=False)
        serving.until_said("nothing is sent; it is tried again")
        following.until_said("nothing is sent; it is tried again")
    ended = following.ended()
    assert ended.exit_code == 0, ended
    assert len(desk.rows()) == JOBS
    assert service.counted("accepted") == JOBS
    serving.signal(signal.SIGTERM)
    assert serving.ended().exit_code == 0


def test_a_short_command_waits_a_little_and_says_where_to_look(desk: Desk, service: Service, ledger: str) -> None:
    program = begun(desk, service, ledger)
    with away(ledger):
        asked = desk.call("status", "--ledger", ledger)
        assert asked.exit_code == 3, asked
        assert "look whether the server runs and can be reached, then resume" in asked.stderr
        program.kill()


def test_who_stops_it_meanwhile_waits_for_it_no_longer(desk: Desk, service: Service, ledger: str) -> None:
    program = begun(desk, service, ledger)
    with away(ledger):
        program.until_said("nothing is sent; it is tried again")
        program.signal(signal.SIGTERM)
        ended = program.ended(STOPPED_S_MAX)
    assert ended.exit_code == 3, ended
    assert "cannot reach the ledger" in ended.stderr
    assert f"interrupted; 0 of {JOBS} jobs finished" in ended.stderr
    service.change(hold=False)
    resumed = desk.call("resume", "prompts", "--ledger", ledger, *FAST)
    assert resumed.exit_code == 0, resumed
    assert len(desk.rows()) == JOBS
    assert service.counted("accepted") == JOBS
