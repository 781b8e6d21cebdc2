"""A disk that fills up under a dashboard and under who serves: pages go on, what is asked is refused as a whole, what is
at the service waits, and all goes on once there is space again. How that is made: `test_full_disk`.
"""

import html
import re
import resource
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import pytest

from tests.system.browsing import Visitor, dashboard_of, looking_at
from tests.system.processes import Desk, Program, Service

pytestmark = [pytest.mark.system, pytest.mark.slow]

JOBS: Final = 30


@contextmanager
def disk_full(of: Program) -> Iterator[None]:
    """No file that this process writes grows inside, nor is anything in it overwritten."""
    before = resource.prlimit(of.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(of.pid, resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.prlimit(of.pid, resource.RLIMIT_FSIZE, before)


def form_of(visitor: Visitor, path: str) -> Mapping[str, str]:
    """What the form carries that confirms what is asked there."""
    page = visitor.client.post(path)
    assert page.status_code == 200, page.text
    tags = re.findall(r'<(?:input|button)[^>]* name="(\w+)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in tags}


def test_what_is_asked_while_the_disk_is_full_is_refused_as_a_whole(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(3)
    working = desk.start("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url)
    service.wait("accepted", 3)
    working.kill()

    dashboard = dashboard_of(desk)
    with looking_at(dashboard) as visitor:
        form = form_of(visitor, "/runs/1/pause")
        with disk_full(dashboard):
            for _ in range(2):
                refused = visitor.client.post("/runs/1/pause", data=form)
                assert refused.status_code == 503, refused.text
                assert "cannot write the ledger" in refused.text
                assert "free some space on its disk" in refused.text
                assert "Retry-After" in refused.headers
            for page in ("/", "/runs", "/runs/1", "/runs/1/jobs", "/engine", "/actions"):
                assert visitor.html(page).status_code == 200, page
            assert visitor.client.get("/healthz").json() == {"status": "ok"}, "it can be read"
            assert visitor.json("/actions")["actions"] == [], "nothing of it was done"
            assert visitor.json("/runs/1")["status"]["paused"] is False
        for _ in range(2):
            done = visitor.client.post("/runs/1/pause", data=form)
            assert done.headers["location"] == "/runs/1?did=1", "the same form, and once"
        assert visitor.json("/runs/1")["status"]["paused"] is True
        assert [each["state"] for each in visitor.json("/actions")["actions"]] == ["done"]
    ended = dashboard.kill()
    assert "Traceback" not in ended.stderr


def test_who_serves_waits_until_there_is_space_again_and_nothing_is_lost_or_sent_twice(
    desk: Desk, service: Service
) -> None:
    service.change(hold=True)
    desk.inputs(JOBS)
    serving = desk.start("serve", "--serverless-url", service.url)
    serving.until_said("serving orchestrator.db")
    place = ("--endpoint", "ep1", "--serverless-url", service.url, "--queue-depth", "10")
    assert desk.call("run", "prompts.jsonl", *place, "--detach").exit_code == 0
    service.wait("accepted", 10)
    with disk_full(serving):
        service.change(hold=False)
        serving.until_said("nothing is sent; it is tried again")
        sent = len(service.accepted())
        for _ in range(3):
            assert desk.call("status").exit_code == 0, "which takes its time"
        assert len(service.accepted()) == sent < JOBS
    serving.until_said("the ledger can be used again")
    desk.until_state("succeeded", JOBS)
    assert Counter(each["n"] for each in service.accepted()) == dict.fromkeys(range(JOBS), 1)
    serving.signal(signal.SIGTERM)
    assert serving.ended().exit_code == 0
