"""How many connections the process dares to hold."""

import subprocess
import sys

import pytest

from orchestrator.client.http.open_files import listener_part, requests_part
from orchestrator.client.jobs.allowance import within_connections
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation

SHOW = "from orchestrator.client.http.open_files import open_files_allowed as a; import resource; r = resource.RLIMIT_NOFILE; "


def allowed(soft: int, hard: int, wanted: int) -> list[int]:
    """What a process with these limits is allowed, and the soft limit that it has afterwards."""
    code = f"{SHOW}resource.setrlimit(r, ({soft}, {hard})); print(a({wanted}), resource.getrlimit(r)[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.parametrize(("open_files", "listener", "requests"), [(2, 1, 1), (256, 64, 128), (1_024, 256, 704)])
def test_a_listener_takes_a_quarter_of_what_may_be_open_and_requests_what_remains(
    open_files: int, listener: int, requests: int
) -> None:
    assert listener_part(open_files) == listener
    assert requests_part(open_files, listens=True) == requests
    assert requests_part(open_files, listens=False) == max(1, open_files - 64)


def test_a_thousand_files_are_enough_for_the_contracts_limits() -> None:
    assert within_connections(CONTRACT_LIMITS, requests_part(1_024, listens=True)) == CONTRACT_LIMITS


def test_raised_limits_keep_to_the_connections_that_there_can_be() -> None:
    raised = {operation: Limit(10_000, 1.0, 5_000) for operation in CONTRACT_LIMITS} | {
        Operation.STATUS: Limit(10_000, 1.0, None)
    }
    found = within_connections(raised, 960)

    batch = [
        found[each].concurrent or 0 for each in (Operation.RUN, Operation.STATUS, Operation.RETRY, Operation.CANCEL)
    ]
    assert batch == [300, 600, 30, 30]
    assert (found[Operation.RUN].requests, found[Operation.OPENAI].concurrent) == (10_000, 600)
    assert within_connections(raised, 1)[Operation.RETRY].concurrent == 1


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "expected"), [(256, 1_000, 500, 500), (256, 300, 500, 300), (600, 1_000, 500, 600)]
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_allowed(
    soft: int, hard: int, wanted: int, expected: int
) -> None:
    assert allowed(soft, hard, wanted) == [expected, expected]
