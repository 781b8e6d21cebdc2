"""Processes that are killed while pods are asked for, at work, or ended: whoever comes next, or `runs tidy`, leaves none
that is paid, makes none twice, and all rows are done.

Time is that of `tests.simulation`.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import anyio
import httpx
import pytest
from msgspec.structs import replace

from orchestrator.api.admin.run_admin import Deleted, delete
from orchestrator.api.inspect.doctor import facts_of
from orchestrator.api.inspect.paid_pods import left_paid
from orchestrator.api.inspect.status import latest
from orchestrator.api.runs.process_commands import control
from orchestrator.core.pods.pod_template import PodTemplate, WhenDone
from orchestrator.engine.hosting.lent_bounds import PutBack
from orchestrator.engine.hosting.pod_host import MAY_BE_PAID, EndedPod
from orchestrator.errors import UsageError
from orchestrator.ledger import read_ledger
from orchestrator.settings.command_requests import ControlAction
from tests.engine.pods.workplace import (
    TEMPLATE,
    Workplace,
    is_action,
    is_create,
    is_list,
    is_ping,
    is_show,
    nobody_holds,
)
from tests.simulation.database import async_creator
from tests.simulation.run import Crash, run_until_crash

JOBS = 6
Kind = Callable[[httpx.Request], bool]


def dies(place: Workplace, crash: Crash) -> bool:
    """Carries out a run until it is killed; False where it ended before."""
    place.more = {"lock": nobody_holds, "intake_lock": nobody_holds}
    at_s = run_until_crash(lambda: place.served(partial(place.carry_out, JOBS)), start_s=place.until_s)
    place.until_s = at_s or place.until_s
    place.way.before = place.way.after = None
    place.emulator.account.pods.on_stop = lambda _: None  # what was under way there died with that world
    return at_s is not None


def kill_at(place: Workplace, kind: Kind, number: int, *, is_done: bool) -> Crash:
    """Kills at the `number`th request of its kind, before it gets there or once it is done and not answered."""
    crash, seen = Crash(), 0

    async def reached(request: httpx.Request) -> bool:
        nonlocal seen
        seen += kind(request)
        return kind(request) and seen == number

    async def before(request: httpx.Request) -> httpx.Response | None:
        if await reached(request):
            await crash.here()
        return None

    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if await reached(request):
            await crash.here()
        return answer

    if is_done:
        place.way.after = after
    else:
        place.way.before = before
    return crash


STEPS = {
    "list": (is_list, 1),
    "first create": (is_create, 1),
    "second create": (is_create, 2),
    "ready": (is_ping, 1),
    "work": (lambda request: request.url.path.endswith("/work"), 3),
    "show before the end": (is_show, 1),
    "first end": (is_action, 1),
    "second end": (is_action, 2),
}
FAST = ("first create", "first end")


@pytest.mark.parametrize("is_done", [False, True], ids=["before", "done"])
@pytest.mark.parametrize(
    "step", [pytest.param(name, marks=() if name in FAST else pytest.mark.slow) for name in STEPS], ids=[*STEPS]
)
def test_after_a_kill_tidy_leaves_no_pod_that_is_paid(tmp_path: Path, step: str, is_done: bool) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, *STEPS[step], is_done=is_done))
    place.until_s += 150.0  # somebody has seen it by then
    found = place.world(place.tidy)
    assert all(each.is_put_back for each in found), found
    assert place.running == []
    assert place.world(place.tidy) == []


@pytest.mark.parametrize("comes", [True, False], ids=["late", "never"])
def test_tidy_waits_for_a_pod_that_was_asked_for_as_its_process_died_and_says_so_where_it_may_still_come(
    tmp_path: Path, comes: bool
) -> None:
    place, left, crash = Workplace(tmp_path), list[httpx.Request](), Crash()
    found: list[PutBack | EndedPod] = []

    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_create(request):
            left.append(request)
            await crash.here()
        return None

    async def come() -> None:
        await anyio.sleep(8.0)
        await place.way.handle_async_request(left[0])

    async def tidy() -> None:
        async with anyio.create_task_group() as group:
            if comes:
                group.start_soon(come)
            found.extend(await place.tidy())

    place.way.before = before
    assert dies(place, crash)
    place.world(tidy)
    assert (left[0].method, place.pods) == ("POST", {})
    assert [(each.is_put_back, each.outcome) for each in found] == [
        (True, "it is gone") if comes else (False, MAY_BE_PAID),
        (False, MAY_BE_PAID),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("is_done", [False, True], ids=["before", "done"])
@pytest.mark.parametrize("step", [*STEPS])
def test_after_a_kill_the_same_run_goes_on_with_its_pods(tmp_path: Path, step: str, is_done: bool) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, *STEPS[step], is_done=is_done))
    summary = place.world(partial(place.carry_out, JOBS))
    assert summary.jobs["succeeded"] == JOBS
    assert place.pods == {}
    assert set(place.executed.values()) <= {1, 2}


def test_a_pod_that_was_made_and_never_heard_of_is_found_by_the_next_run_and_not_made_again(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    made: set[str] = set()

    async def after(_request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        made.update(place.pods)
        return answer

    assert dies(place, kill_at(place, is_create, 2, is_done=True))
    assert len(place.running) == 2
    made.update(place.pods)
    place.way.after = after
    place.world(partial(place.carry_out, JOBS))
    assert (len(made), place.pods) == (2, {})


@pytest.mark.slow
def test_after_a_kill_another_run_ends_the_pods_that_nobody_wants(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, is_ping, 1, is_done=True))
    assert len(place.running) == 2
    place.world(partial(place.carry_out, 3, name="other", pods=1))
    assert place.pods == {}


@pytest.mark.slow
@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("template", [TEMPLATE, replace(TEMPLATE, when_done=WhenDone.STOP)], ids=["terminate", "stop"])
def test_killed_at_each_commit_nothing_is_left_that_is_paid(
    tmp_path: Path, template: PodTemplate, is_after: bool
) -> None:
    number = 0
    while killed_at(tmp_path / f"{number}", number := number + 1, template, is_after=is_after):
        pass
    assert number > 15


def killed_at(folder: Path, number: int, template: PodTemplate, *, is_after: bool) -> bool:
    """Kills a run at that commit, tidies, and has it go on; False where it ended before."""
    folder.mkdir()
    place = Workplace(folder)
    place.more = {"lock": nobody_holds, "intake_lock": nobody_holds}
    place.connect = partial(async_creator, commits=KillAtCommit(number, is_after=is_after))
    carry_out = partial(place.carry_out, JOBS, pod_template=template)
    at_s = run_until_crash(lambda: place.served(carry_out), start_s=place.until_s)
    if at_s is None:
        return False
    place.until_s, place.connect = at_s + 150.0, async_creator
    place.emulator.account.pods.on_stop = lambda _: None
    place.world(place.tidy)
    assert place.running == [], f"killed at commit {number}"
    summary = place.world(carry_out)
    assert summary.jobs["succeeded"] == JOBS, f"killed at commit {number}"
    assert (place.running, len(place.pods) <= 2) == ([], True)
    return True


class KillAtCommit:
    """Kills at a commit, by its number."""

    def __init__(self, number: int, *, is_after: bool) -> None:
        self.number = number
        self.is_after = is_after
        self.seen = 0
        self.crash = Crash()

    def committing(self) -> bool:
        """Before a commit."""
        self.seen += 1
        if self.seen == self.number and not self.is_after:
            self.crash.pull()
            return False
        return True

    def committed(self) -> None:
        """After one."""
        if self.seen == self.number and self.is_after:
            self.crash.pull()


def test_what_a_kill_has_left_is_told_and_no_longer_once_it_is_gone(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, is_ping, 1, is_done=True))
    ledger = place.folder / "db"
    workers, pods = anyio.run(left_paid, ledger)
    assert (list(workers), [(each.run, each.pod is not None) for each in pods]) == ([], [("in", True)] * 2)
    assert len(anyio.run(latest, ledger, None).paid_pods) == 2
    place.until_s += 10.0
    place.world(place.tidy)
    assert anyio.run(left_paid, ledger).pods == []


def test_doctor_asks_no_pod_that_is_gone(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, lambda request: request.url.path.endswith("/work"), 3, is_done=False))
    place.until_s += 10.0
    place.world(place.tidy)

    async def places() -> list[list[str]]:
        async with read_ledger(place.folder / "db", clock=place.clock) as ledger:
            return [[endpoint for endpoint, _ in run.places] for run in (await facts_of(ledger, None)).runs]

    assert anyio.run(places) == [["pods:vllm"]]


@pytest.mark.slow
def test_pods_of_a_run_that_an_earlier_version_has_deleted_are_ended_by_whoever_comes_next(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, is_create, 2, is_done=True))
    with closing(sqlite3.connect(place.folder / "db")) as ledger, ledger:
        ledger.execute("UPDATE runs SET intake_accepted = 0")
    assert len(place.running) == 2
    place.until_s += 10.0
    place.world(partial(place.carry_out, 30, name="other", pods=1))
    assert place.pods == {}


@pytest.mark.slow
def test_a_run_is_deleted_once_its_pods_are_ended(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    assert dies(place, kill_at(place, is_create, 2, is_done=True))

    async def deleted() -> Deleted:
        return await delete(place.folder / "db", "in", place.dependencies)

    with pytest.raises(UsageError, match=r"in: a pod of it may still be paid; end it first \(orchestrator runs tidy\)"):
        place.world(deleted)
    place.world(partial(control, place.folder / "db", "in", ControlAction.CANCEL, place.dependencies))
    with pytest.raises(UsageError, match="a pod of it may still be paid"):
        place.world(deleted)
    assert len(place.running) == 2
    place.world(place.tidy)
    assert place.pods == {}
    assert place.world(deleted) == Deleted(run="in", jobs=JOBS)
