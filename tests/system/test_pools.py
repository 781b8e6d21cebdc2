"""SIGKILL while what waits at a member without a machine is cancelled there and sent to another: nothing is done twice."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.crashes.kills import PATIENCE_S, verified, verified_copy
from tests.system.processes import Desk, Service

pytestmark = [pytest.mark.system, pytest.mark.slow]

JOBS = 60
AWAY = "away"
MOMENTS = (1, 15, 40)
"""A process is killed once so many jobs were cancelled."""


def test_a_move_that_is_killed_again_and_again_is_ended_by_the_next_process(
    desk: Desk, services: Callable[..., Service]
) -> None:
    service = services(throttled=AWAY)
    desk.inputs(JOBS)
    command = ("run", "prompts.jsonl", "--serverless-url", service.url, "--output", "results.jsonl", "--json")
    alone = desk.start(*command, "--endpoint", AWAY)
    service.wait("accepted", JOBS)
    desk.until_outstanding(JOBS)
    alone.kill()
    widened = (*command, "--endpoint", f"{AWAY},ep1", "--uncertain-after", "300ms")
    for moment in MOMENTS:
        program = desk.start(*widened)
        service.wait("cancelled", moment)
        program.kill()
        assert verified_copy(desk.folder).ok
    ended = desk.start(*widened, within_s=PATIENCE_S).ended()
    assert ended.exit_code == 0, ended
    assert verified(desk.folder, files=True).ok
    assert sorted(desk.ids()) == sorted(f"row-{n}" for n in range(JOBS))
    resubmitted = ended.summary["uncertain"]["resubmitted"]
    assert service.counted("finished") <= JOBS + resubmitted
    assert service.counted("cancelled") >= JOBS - resubmitted
    again = Counter(each["n"] for each in service.accepted())
    assert sum(n - 2 for n in again.values()) <= resubmitted
