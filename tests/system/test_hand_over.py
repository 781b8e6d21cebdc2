"""One process works on a ledger; others take in rows beside it, follow, and go on in its place."""

import json
import os
import pty
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.system.processes import FAST, HOST, ORCHESTRATOR, Desk, Program, Service

pytestmark = pytest.mark.system

SERVES = "is handed to process"
GOES_ON = "this one goes on in its place"


def run(desk: Desk, service: Service, name: str, *more: str) -> Program:
    place = ("--endpoint", "ep1", "--serverless-url", service.url, "--output", f"{name}.out", "--json", *FAST)
    return desk.start("run", f"{name}.jsonl", *place, *more)


@contextmanager
def held(service: Service) -> Iterator[None]:
    """No job finishes inside the block."""
    service.change(hold=True)
    yield
    service.change(hold=False)


@contextmanager
def at_work(desk: Desk, service: Service, jobs: int = 10) -> Iterator[Program]:
    """The run `one` of so many jobs is at work, and no job finishes inside the block."""
    desk.inputs(jobs, "one.jsonl")
    with held(service):
        first = run(desk, service, "one")
        service.wait("accepted", jobs)
        yield first


@pytest.mark.slow
def test_a_second_run_is_served_by_the_process_that_works_and_ends_as_if_it_had_worked_itself(
    desk: Desk, service: Service
) -> None:
    desk.inputs(40, "two.jsonl")
    with at_work(desk, service, 30) as first:
        second = run(desk, service, "two")
        told = second.until_said(SERVES)
        assert f"process {first.pid} on {HOST} (run one) since" in told
        assert told.endswith("it is served")
        service.wait("accepted", 70)
        assert desk.call("pause", "two").exit_code == 0
        same = run(desk, service, "two")
        same.until_said(SERVES)
        assert desk.call("continue", "two").exit_code == 0
    for program, jobs in ((second, 40), (same, 40), (first, 30)):
        ended = program.ended()
        assert ended.exit_code == 0, ended
        assert ended.summary["jobs"]["succeeded"] == jobs
    assert (len(desk.ids("one.out")), len(desk.ids("two.out"))) == (30, 40)
    assert len(service.accepted()) == 70, "nothing is paid for twice"


@pytest.mark.parametrize("end", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)])
def test_who_follows_goes_on_in_the_place_of_a_process_that_ends(
    desk: Desk, service: Service, end: signal.Signals
) -> None:
    for name in ("two", "three"):
        desk.inputs(20, f"{name}.jsonl")
    with at_work(desk, service, 20) as first:
        followers = [run(desk, service, name) for name in ("two", "three")]
        for each in followers:
            each.until_said(SERVES)
        service.wait("accepted", 60)
        desk.until_outstanding(60)
        first.signal(end)
        first.ended()
    ended = [each.ended() for each in followers]
    assert [each.exit_code for each in ended] == [0, 0], ended
    assert any(GOES_ON in each.stderr for each in ended)
    assert (len(desk.ids("two.out")), len(desk.ids("three.out"))) == (20, 20)
    assert run(desk, service, "one").ended().exit_code == 0
    assert Counter(Counter(each["n"] for each in service.accepted()).values()) == {3: 20}, "nobody was paid twice"


@pytest.mark.slow
def test_who_follows_goes_on_at_once_when_the_run_of_the_process_that_works_is_over(
    desk: Desk, service: Service
) -> None:
    desk.inputs(40, "two.jsonl")
    with at_work(desk, service, 20) as first:
        second = run(desk, service, "two")
        second.until_said(SERVES)
        service.wait("accepted", 60)
        assert desk.call("cancel", "one", "--yes").exit_code == 0
        assert first.ended().summary["jobs"]["cancelled"] == 20
        second.until_said(GOES_ON)
    ended = second.ended()
    assert ended.exit_code == 0, ended
    assert len(desk.ids("two.out")) == 40
    assert len(service.accepted()) == 60, "nothing is paid for twice"


@pytest.mark.slow
def test_who_leaves_off_following_or_is_killed_changes_nothing(desk: Desk, service: Service) -> None:
    desk.inputs(20, "two.jsonl")
    with at_work(desk, service) as first:
        killed = run(desk, service, "two")
        killed.until_said(SERVES)
        left = run(desk, service, "two")
        left.until_said(SERVES)
        left.signal(signal.SIGTERM)
        ended = left.ended()
        assert (ended.exit_code, ended.summary["interrupted"]) == (143, True)
        assert f"two goes on in process {first.pid}" in ended.stderr
        assert "orchestrator pause two" in ended.stderr
        killed.kill()
        service.wait("accepted", 30)
        desk.until_outstanding(30)
    assert first.ended().exit_code == 0
    assert run(desk, service, "two").ended().exit_code == 0
    assert len(service.accepted()) == 30


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "said"), [("s\n", "two is stopped"), ("\n", "two goes on in process")])
def test_ctrl_c_at_a_terminal_asks_whether_a_run_that_is_followed_stops_too(
    desk: Desk, service: Service, answer: str, said: str
) -> None:
    desk.inputs(400, "two.jsonl")
    with at_work(desk, service) as first:
        place = ("--endpoint", "ep1", "--serverless-url", service.url, "--queue-depth", "20", "--json")
        asked, heard = pty.openpty()
        second = subprocess.Popen(
            [ORCHESTRATOR, "run", "two.jsonl", *place],
            cwd=desk.folder,
            env=desk.environment({"TERM": "xterm"}),
            stdin=heard,
            stderr=heard,
            stdout=subprocess.PIPE,
        )
        os.close(heard)
        shown = _until(asked, SERVES)
        second.send_signal(signal.SIGINT)
        shown += _until(asked, "leaves it going there")
        os.write(asked, answer.encode())
        shown += _until(asked, said)
        out, _ = second.communicate(timeout=60)
        assert second.returncode == 130
        assert json.loads(out)["interrupted"] is True
        os.close(asked)
        sent = len(service.accepted())
        assert sent < 100
        (again := run(desk, service, "two")).until_said(SERVES)
        again.kill()
    assert first.ended().exit_code == 0


def _until(terminal: int, text: str) -> str:
    """What is shown at `terminal` until `text` is."""
    shown = ""
    while text not in shown:
        shown += os.read(terminal, 4_096).decode(errors="replace")
    return shown


@pytest.mark.slow
def test_a_bad_input_is_refused_beside_a_process_that_works_and_leaves_no_trace(desk: Desk, service: Service) -> None:
    desk.write("two.jsonl", '{"n": 1}\n{"n": \n')
    with at_work(desk, service) as first:
        refused = run(desk, service, "two").ended()
        assert refused.exit_code == 2
        assert "two.jsonl: 1 problem" in refused.stderr
        assert "line 2" in refused.stderr
        assert [each["run"] for each in json.loads(desk.call("status", "--json").stdout)] == ["one"]
    assert first.ended().exit_code == 0
    assert len(service.accepted()) == 10


@pytest.mark.slow
def test_a_function_is_not_handed_to_another_process(desk: Desk, service: Service) -> None:
    desk.write("mine.py", "def f(job):\n    return 1\n")
    with at_work(desk, service) as first:
        refused = desk.call("run", "one.jsonl", "--name", "mine", "--endpoint", "local:mine.py:f")
        assert refused.exit_code == 4
        assert f"process {first.pid} on {HOST} (run one) since" in refused.stderr
        assert "use another --ledger" in refused.stderr
    assert first.ended().exit_code == 0


@pytest.mark.slow
def test_serve_works_on_every_run_until_it_is_stopped_and_only_once(desk: Desk, service: Service) -> None:
    desk.inputs(20, "two.jsonl")
    with at_work(desk, service) as first:
        desk.until_outstanding(10)
        first.kill()
        serving = desk.start("serve", "--serverless-url", service.url, "--json", *FAST)
        serving.until_said("serving orchestrator.db")
        twice = desk.call("serve", "--serverless-url", service.url)
        who = f"process {serving.pid} on {HOST} (serve) since"
        assert (twice.exit_code, who in twice.stderr) == (4, True)
        second = run(desk, service, "two")
        second.until_said(SERVES)
        service.wait("accepted", 30)
    assert second.ended().exit_code == 0
    desk.until_state("succeeded", 30)
    serving.until_said("one: finished; 10 of 10 jobs succeeded")
    serving.signal(signal.SIGTERM)
    ended = serving.ended()
    assert ended.exit_code == 0
    assert [each["jobs"]["succeeded"] for each in ended.summary] == [10, 20]
    assert len(service.accepted()) == 30


@pytest.mark.slow
def test_a_run_that_the_process_at_work_cannot_serve_is_held_and_says_so(
    desk: Desk, services: Callable[..., Service]
) -> None:
    here, there = services(), services()
    desk.inputs(20, "two.jsonl")
    with at_work(desk, here) as first:
        second = run(desk, there, "two")
        assert f"it is held: the process that works on this ledger has no API key for {there.url}" in second.until_said(
            SERVES
        )
        assert f"no API key for {there.url}" in desk.call("status", "--json").stdout
        first.kill()  # and who follows has the key
        assert second.ended().exit_code == 0
    assert len(there.accepted()) == 20


@pytest.mark.slow
def test_a_further_service_is_reached_by_the_key_of_its_own(desk: Desk, services: Callable[..., Service]) -> None:
    here, there = services(), services(key="another-key")
    desk.inputs(10, "one.jsonl")
    desk.inputs(20, "two.jsonl")
    with held(here):
        place = ("--endpoint", "ep1", "--serverless-url", here.url, "--service-key", f"{there.url}=env:THERE", *FAST)
        first = desk.start("run", "one.jsonl", *place, environ={"THERE": "another-key"})
        here.wait("accepted", 10)
        assert run(desk, there, "two").ended().exit_code == 0
    ended = first.ended()
    assert ended.exit_code == 0
    assert "another-key" not in ended.stderr
    assert len(there.accepted()) == 20


@pytest.mark.slow
def test_detach_returns_once_its_run_is_under_way_and_it_goes_on(desk: Desk, service: Service) -> None:
    desk.inputs(20, "one.jsonl")
    desk.inputs(20, "two.jsonl")
    with held(service):
        ended = run(desk, service, "one", "--detach").ended()
        assert ended.exit_code == 0, ended
        assert ended.summary["run"] == "one"
        assert "20 rows checked" in ended.stderr
        assert "follow it with: orchestrator watch one\nstop it with: orchestrator stop\n" in ended.stderr
        service.wait("accepted", 20)
        second = run(desk, service, "two", "--detach").ended()
        assert second.exit_code == 0
        assert f"process {ended.summary['process']} on {HOST} (run one) since" in second.stderr
        service.wait("accepted", 40)
    desk.until_state("succeeded", 40)
    assert desk.call("resume", "one").exit_code == 0
    assert len(desk.ids("one.out")) == 20


@pytest.mark.slow
def test_what_goes_wrong_before_a_detached_run_is_under_way_is_told_where_it_was_begun(
    desk: Desk, service: Service
) -> None:
    desk.write("one.jsonl", "")
    ended = run(desk, service, "one", "--detach").ended()
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "the input is empty" in ended.stderr
