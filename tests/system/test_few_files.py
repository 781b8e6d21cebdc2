"""A system that lets the process open few files: it sends less at once, says so, and no request is in doubt."""

import resource
from functools import partial

import pytest

from tests.system.processes import Desk, Service

pytestmark = pytest.mark.system

JOBS = 400
FILES = 256
MANY = 4_096


may_ask_for_more = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (FILES, MANY))
few_files = partial(resource.setrlimit, resource.RLIMIT_NOFILE, (FILES, FILES))


@pytest.mark.slow
def test_raised_limits_are_bounded_by_the_files_that_may_be_open(desk: Desk, service: Service) -> None:
    service.change(answer_after_s=0.3)
    desk.inputs(JOBS)

    ended = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--json", "--limit", "run=5000/1:2000", "--limit", "status=5000/1:2000", before=few_files,
    ).ended()  # fmt: skip

    assert ended.exit_code == 0, ended
    assert f"lets this process open {FILES} files: no more requests at once than 60 to /run" in ended.stderr
    assert "no connection" not in ended.stderr
    assert (ended.summary["uncertain"]["seen"], len(service.accepted())) == (0, JOBS)


@pytest.mark.slow
def test_the_limit_of_open_files_is_raised_without_a_listener_too(desk: Desk, service: Service) -> None:
    service.change(answer_after_s=0.3)
    desk.inputs(JOBS)

    ended = desk.start(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--json",
        "--limit", "run=5000/1:800", before=may_ask_for_more,
    ).ended()  # fmt: skip

    assert ended.exit_code == 0, ended
    assert "files" not in ended.stderr
    assert "no connection" not in ended.stderr
