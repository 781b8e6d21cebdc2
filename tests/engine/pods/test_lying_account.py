"""An account that loses answers, fails, is slow, or tells of other pods: none is made twice, and none is left.

Time is that of `tests.simulation`.
"""

import json
from collections import Counter
from pathlib import Path

import anyio
import httpx
import pytest

from tests.engine.pods.workplace import Workplace, is_action, is_create, is_list, is_show, lost


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def finishes(place: Workplace, jobs: int = 30) -> int:
    """Carries out a run; returns how many pods were ever made."""
    made: set[str] = set()

    async def watch() -> None:
        while True:
            made.update(place.pods)
            assert len(place.running) <= 2, "more pods are paid than are wanted"
            await anyio.sleep(0.5)

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(watch)
            summary = await place.carry_out(jobs)
            assert summary.jobs["succeeded"] == jobs
            group.cancel_scope.cancel()

    place.world(both)
    assert place.pods == {}
    return len(made)


def test_a_create_whose_answer_is_lost_is_found_by_its_name(place: Workplace) -> None:
    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        return await lost(request, answer) if is_create(request) else answer

    place.way.after = after
    assert finishes(place) == 2


@pytest.mark.slow
def test_a_create_that_fails_after_it_was_done_is_found_too(place: Workplace) -> None:
    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        return httpx.Response(500, request=request) if is_create(request) else answer

    place.way.after = after
    assert finishes(place) == 2


@pytest.mark.slow
def test_a_create_that_fails_and_does_nothing_is_asked_again_once_that_is_certain(place: Workplace) -> None:
    asked: list[float] = []

    async def before(request: httpx.Request) -> httpx.Response | None:
        if not is_create(request):
            return None
        asked.append(anyio.current_time())
        return httpx.Response(500, request=request) if len(asked) <= 2 else None

    place.way.before = before
    assert finishes(place) == 2
    assert asked[2] - asked[0] >= 120, "nobody knew before whether they were made"


def test_an_answer_about_another_pod_is_not_believed(place: Workplace) -> None:
    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if not is_create(request):
            return answer
        other = {**json.loads(await answer.aread()), "id": "sombodyelses", "name": "production"}
        return httpx.Response(201, json=other, request=request)

    place.way.after = after
    assert finishes(place) == 2
    assert not any("sombodyelses" in line for line in place.console.lines)


@pytest.mark.slow
def test_somebody_elses_pods_are_left_alone_whatever_they_are_called(place: Workplace) -> None:
    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if not is_list(request):
            return answer
        pods = json.loads(await answer.aread())["pods"]
        own = [{**pod, "id": f"{pod['id']}x"} for pod in pods]  # the names of ours, and the ids of others
        return httpx.Response(200, json={"pods": own + pods}, request=request)

    touched: Counter[str] = Counter()

    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_action(request) and request.url.path.split("/")[3].endswith("x"):
            touched["others"] += 1
        return None

    place.way.after, place.way.before = after, before
    assert finishes(place) == 2
    assert not touched


@pytest.mark.slow
@pytest.mark.parametrize("status", [500, 429])
def test_a_list_that_fails_for_a_while_ends_nothing(place: Workplace, status: int) -> None:
    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_list(request) and 20 <= anyio.current_time() < 30:
            return httpx.Response(status, request=request)
        return None

    place.way.before = before
    place.execution_s = 30.0
    assert finishes(place) == 2
    assert set(place.executed.values()) == {1}


@pytest.mark.slow
def test_an_old_list_is_not_believed_when_a_pod_is_missing_in_it(place: Workplace) -> None:
    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        if is_list(request) and 20 <= anyio.current_time() < 40:
            return httpx.Response(200, json={"pods": []}, request=request)
        return answer

    place.way.after = after
    place.execution_s = 20.0
    assert finishes(place) == 2
    assert set(place.executed.values()) == {1}


@pytest.mark.slow
def test_an_end_whose_answer_is_lost_is_looked_after(place: Workplace) -> None:
    async def after(request: httpx.Request, answer: httpx.Response) -> httpx.Response:
        return await lost(request, answer) if is_action(request) else answer

    place.way.after = after
    assert finishes(place) == 2


@pytest.mark.slow
def test_an_end_that_fails_at_first_is_tried_again_and_what_stays_is_said(place: Workplace) -> None:
    refusals: Counter[str] = Counter()

    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_action(request):
            refusals["all"] += 1
            if refusals["all"] <= 3:
                return httpx.Response(500, request=request)
        return None

    place.way.before = before
    assert finishes(place) == 2


def test_one_that_cannot_be_ended_is_told_with_its_id(place: Workplace) -> None:
    async def before(request: httpx.Request) -> httpx.Response | None:
        return httpx.Response(500, request=request) if is_action(request) else None

    place.way.before = before
    place.world(lambda: place.carry_out(5))
    assert len(place.running) == 2
    [told] = [line for line in place.console.lines if "may still be paid" in line]
    assert "orchestrator runs tidy" in told
    place.way.before = None
    found = place.world(place.tidy)
    assert [each.is_put_back for each in found] == [True, True], found
    assert place.pods == {}


@pytest.mark.slow
def test_a_pod_that_comes_long_after_it_was_given_up_is_terminated(place: Workplace) -> None:
    late: list[httpx.Request] = []

    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_create(request) and not late:
            late.append(request)
            return httpx.Response(500, request=request)
        return None

    async def comes() -> None:
        await anyio.sleep(150)
        place.way.before = None
        await place.way.handle_async_request(late[0])

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(comes)
            await place.carry_out(60, pods=1)

    place.way.before = before
    place.execution_s = 60.0
    place.world(both)
    assert place.pods == {}
    assert any("came after all" in line for line in place.console.lines)


@pytest.mark.slow
def test_show_that_fails_leaves_the_pod_to_the_next_look(place: Workplace) -> None:
    async def before(request: httpx.Request) -> httpx.Response | None:
        if is_show(request) and anyio.current_time() < 30:
            return httpx.Response(503, request=request)
        return None

    place.way.before = before
    place.execution_s = 20.0
    assert finishes(place) == 2
