"""A disk that fills up: the run stops with exit code 3, and once there is space again nothing is lost.

Stands in for a small file system, which only root could mount: a limit on the size of each file that the process
writes (RLIMIT_FSIZE). Python ignores the signal that comes with it, so writing fails as it does on a full disk.
"""

import resource
from collections import Counter
from functools import partial

import pytest

from tests.system.processes import FAST, Desk, Service

pytestmark = pytest.mark.system

JOBS = 600


def files_up_to(size: int) -> partial[None]:
    """What a new process does so that no file that it writes grows beyond `size` bytes."""
    return partial(resource.setrlimit, resource.RLIMIT_FSIZE, (size, size))


@pytest.mark.slow
def test_a_disk_that_is_full_before_the_first_write_is_told_and_nothing_is_sent(desk: Desk, service: Service) -> None:
    desk.inputs(JOBS, padding="x" * 1_000)
    command = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST)

    for size in (0, 20_000, 250_000):  # not a byte; no room for the tables; no room for the rows
        ended = desk.call(*command, before=files_up_to(size))
        assert ended.exit_code == 3, ended
        assert "orchestrator.db: cannot write the ledger" in ended.stderr
        assert "free some space on its disk, then resume" in ended.stderr
        assert "Traceback" not in ended.stderr
        assert "0 jobs" not in ended.stderr
    assert service.log()["counted"] == {}
    assert desk.call(*command).exit_code == 0
    assert len(service.accepted()) == JOBS


@pytest.mark.slow
def test_a_disk_that_fills_up_stops_the_run_and_after_space_is_freed_nothing_is_lost(
    desk: Desk, service: Service
) -> None:
    desk.inputs(JOBS)
    place = ("--endpoint", "ep1", "--output", "results.jsonl", "--json", "--uncertain-after", "200ms", *FAST)
    # The whole input is in the ledger, and its write-ahead log folded into the file: from here on only the log grows.
    wrong_key = {"ORCHESTRATOR_API_KEY": "wrong"}
    refused = desk.call("run", "prompts.jsonl", "--serverless-url", service.url, *place, environ=wrong_key)
    assert refused.exit_code == 3, refused
    size = (desk.folder / "orchestrator.db").stat().st_size

    unanswered = 0
    for more in (100_000, 400_000):
        ended = desk.call(
            "run", "prompts.jsonl", "--serverless-url", service.url, *place, before=files_up_to(size + more)
        )
        assert ended.exit_code == 3, ended
        assert "free some space on its disk, then resume" in ended.stderr
        # A request that the stop cut off is uncertain where there was room to write that down, else still submitting.
        unanswered += desk.states().get("submitting", 0) + desk.states().get("uncertain", 0)
        assert 0 < len(service.accepted()) < JOBS

    resumed = desk.call("resume", "prompts", "--output", "results.jsonl", "--json", *FAST)

    assert resumed.exit_code == 0, resumed
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    accepted, uncertain = Counter(each["n"] for each in service.accepted()), resumed.summary["uncertain"]
    assert set(accepted) == set(range(JOBS))
    assert accepted.total() <= JOBS + uncertain["resubmitted"]
    assert uncertain["seen"] <= unanswered


@pytest.mark.slow
def test_no_space_for_the_results_leaves_no_half_of_them(desk: Desk, service: Service) -> None:
    desk.inputs(200, filler=50_000)  # repeated letters: little in the ledger, which packs them, and 10 MB of results

    ended = desk.call(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        *FAST, before=files_up_to(8_000_000),
    )  # fmt: skip

    assert ended.exit_code == 3, ended
    place = desk.folder / "results.jsonl"
    assert (
        f"cannot write {place}: File too large; free space or fix permissions, then give the command again"
        in ended.stderr
    )
    assert {path.name for path in desk.folder.iterdir()} <= {
        "prompts.jsonl", "orchestrator.db", "orchestrator.db.lock", "orchestrator.db.key", "orchestrator.db.sent",
    }  # fmt: skip

    again = desk.call("resume", "prompts", "--output", "results.jsonl")
    assert again.exit_code == 0, again
    assert len(desk.rows()) == 200 == len(service.accepted())
