"""SIGKILL at five random moments: every job ends with one row, and nothing is paid twice but what was in doubt."""

import random
import socket
from collections import Counter
from collections.abc import Callable

import pytest

from tests.system.processes import Desk, Service

pytestmark = pytest.mark.system

JOBS = 2_000
KILLS = 5


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


@pytest.mark.parametrize(("with_webhooks", "seed"), [(False, 1), (True, 2)], ids=["polling", "webhooks"])
def test_a_run_killed_five_times_loses_nothing_and_repeats_only_what_was_uncertain(
    desk: Desk, services: Callable[..., Service], with_webhooks: bool, seed: int
) -> None:
    service = services(seed=seed, answers_dropped=0.02 if with_webhooks else 0.0, finish_after_s=(0.05, 0.5))
    desk.inputs(JOBS)
    # The same port each time: webhooks of a killed process's submissions reach its successor.
    listener = ("--listen", f"127.0.0.1:{free_port()}") if with_webhooks else ()
    command = (
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--json", "--uncertain-after", "300ms", "--limit", "run=600/1:100", "--limit", "status=2000/1:200", *listener,
    )  # fmt: skip
    submitting = 0

    for moment in sorted(random.Random(seed).sample(range(20, JOBS - 200), KILLS)):
        program = desk.start(*command)
        service.wait("accepted", moment)
        program.kill()
        submitting += desk.states().get("submitting", 0)
    ended = desk.call(*command)

    assert ended.exit_code == 0, ended
    assert desk.ids() == [f"row-{n}" for n in range(JOBS)]
    assert desk.rows("results.jsonl.errors.jsonl") == []
    accepted, uncertain = Counter(each["n"] for each in service.accepted()), ended.summary["uncertain"]
    assert set(accepted) == set(range(JOBS))
    assert accepted.total() <= JOBS + uncertain["resubmitted"]
    assert uncertain["seen"] <= service.counted("dropped") + submitting
    assert uncertain["seen"] == uncertain["adopted"] + uncertain["resubmitted"]
    assert ended.summary["lost"] == ended.summary["expired"] == 0
