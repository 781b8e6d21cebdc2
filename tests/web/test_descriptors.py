"""How many connections the listener dares to hold."""

import subprocess
import sys

import pytest

from orchestrator.web.connection import CONNECTIONS_MAX
from orchestrator.web.descriptors import connections_allowed

SHOW = "from orchestrator.web.descriptors import open_files_allowed as a; import resource; r = resource.RLIMIT_NOFILE; "


def allowed(soft: int, hard: int, wanted: int) -> list[int]:
    """What a process with these limits is allowed, and the soft limit that it has afterwards."""
    code = f"{SHOW}resource.setrlimit(r, ({soft}, {hard})); print(a({wanted}), resource.getrlimit(r)[0])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return [int(number) for number in done.stdout.split()]


@pytest.mark.parametrize(
    ("open_files", "connections"), [(2, 1), (256, 64), (1_024, 256), (4_096, CONNECTIONS_MAX), (10**6, CONNECTIONS_MAX)]
)
def test_the_listener_takes_a_quarter_of_what_may_be_open_and_no_more_than_its_most(
    open_files: int, connections: int
) -> None:
    assert connections_allowed(open_files) == connections


@pytest.mark.parametrize(
    ("soft", "hard", "wanted", "expected"), [(256, 1_000, 500, 500), (256, 300, 500, 300), (600, 1_000, 500, 600)]
)
def test_the_soft_limit_is_raised_as_far_as_needed_and_allowed(
    soft: int, hard: int, wanted: int, expected: int
) -> None:
    assert allowed(soft, hard, wanted) == [expected, expected]
