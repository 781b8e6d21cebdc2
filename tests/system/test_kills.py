"""SIGKILL at random moments: every job ends with one row, and nothing is paid twice but what was in doubt.

The short form of `python -m tests.crashes`.
"""

from collections.abc import Callable

import pytest

from tests.crashes.kills import killed_run
from tests.system.processes import Desk, Service

pytestmark = pytest.mark.system

JOBS = 400
RETENTION_S = 60
"""A job whose webhook was lost is asked for after a quarter of it, or after half a minute: a test is not to wait so long."""


@pytest.mark.parametrize(
    ("with_webhooks", "kills"), [(False, 2), pytest.param(True, 3, marks=pytest.mark.slow)], ids=["polling", "webhooks"]
)
def test_a_killed_run_loses_nothing_and_repeats_only_what_was_uncertain(
    desk: Desk, services: Callable[..., Service], with_webhooks: bool, kills: int
) -> None:
    service = services(
        seed=kills,
        retention_s=RETENTION_S,
        answers_dropped=0.02 if with_webhooks else 0.0,
        hooks_lost=0.1,
        finish_after_s=(0.05, 0.5),
    )

    flags = ("--result-retention", f"{RETENTION_S}s")
    killed = killed_run(desk, service, jobs=JOBS, kills=kills, seed=kills, webhooks=with_webhooks, flags=flags)

    assert killed.faults() == []


@pytest.mark.slow
@pytest.mark.parametrize(("via", "with_webhooks"), [("sync", False), ("both", True)])
def test_of_held_answers_nothing_is_lost_silently(
    desk: Desk, services: Callable[..., Service], via: str, with_webhooks: bool
) -> None:
    service = services(seed=7, retention_s=RETENTION_S, answers_dropped=0.01, finish_after_s=(0.05, 0.5))

    flags = ("--via", via, "--limit", "runsync=600/1:40")
    killed = killed_run(desk, service, jobs=1_000, kills=20, seed=7, webhooks=with_webhooks, flags=flags)

    assert killed.faults() == []
    assert killed.in_flight > 20, "of each process some answers were held as it was killed"
