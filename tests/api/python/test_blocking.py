"""`map` in a script, a thread and beside a running event loop; and what is left when its loop is."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import orchestrator
from orchestrator import InputError, Result, UsageError
from tests.raising import raises, type_of


def double(job: dict[str, Any]) -> int:
    return int(job["input"]["n"]) * 2


def numbers(n: int = 3) -> Iterator[dict[str, int]]:
    return ({"n": number} for number in range(n))


def doubled(folder: Path, n: int = 3) -> list[int]:
    results = orchestrator.map(double, numbers(n), name="night", ledger=folder / "l.db", order="input")
    return [result.output for result in results]


@pytest.mark.slow
def test_it_gives_results_in_a_script(tmp_path: Path) -> None:
    assert doubled(tmp_path) == [0, 2, 4]


@pytest.mark.slow
def test_it_works_in_a_thread_beside_a_loop_that_runs(tmp_path: Path) -> None:
    async def main() -> list[int]:
        with ThreadPoolExecutor(1) as threads:
            assert await asyncio.get_running_loop().run_in_executor(threads, doubled, tmp_path, 2) == [0, 2]
        return doubled(tmp_path)  # as a cell of a notebook would

    assert asyncio.run(main()) == [0, 2, 4]


@pytest.mark.slow
def test_a_loop_that_is_left_ends_its_thread_and_goes_on_later(tmp_path: Path) -> None:
    for result in orchestrator.map(double, numbers(), name="night", ledger=tmp_path / "l.db"):
        assert isinstance(result, Result)
        break
    assert "orchestrator" not in {thread.name for thread in threading.enumerate()}
    assert doubled(tmp_path) == [0, 2, 4]


@pytest.mark.slow
def test_an_exception_in_the_loop_ends_its_thread_and_goes_on_later(tmp_path: Path) -> None:
    def fails() -> None:
        for result in orchestrator.map(double, numbers(), name="night", ledger=tmp_path / "l.db"):
            assert result.output / 0

    with pytest.raises(ZeroDivisionError):
        fails()
    assert "orchestrator" not in {thread.name for thread in threading.enumerate()}
    assert doubled(tmp_path) == [0, 2, 4]


def test_what_goes_wrong_is_raised_plainly_where_the_results_are_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not dict"):
        orchestrator.map(double, {"n": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="did you mean ttl"):
        orchestrator.map(double, numbers(), ttll=5)  # type: ignore[call-arg]
    bad: list[Any] = [{"n": 1}, "bad"]
    with pytest.raises(InputError, match="row 2: str, not a dict or a Job") as refused:
        list(orchestrator.map(double, bad, ledger=tmp_path / "l.db"))
    assert (refused.value.taken, refused.value.__cause__) == (1, None)


@pytest.mark.slow
def test_without_a_name_what_it_gives_is_of_these_inputs_only(tmp_path: Path) -> None:
    for n in (1, 2):
        found = [result.output for result in orchestrator.map(double, [{"n": n}], ledger=tmp_path / "l.db")]
        assert found == [2 * n]


class Raising:
    """One input, and then an error."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.given = 0

    def __iter__(self) -> Iterator[dict[str, int]]:
        return self

    def __next__(self) -> dict[str, int]:
        self.given += 1
        if self.given > 1:
            raises(self.kind)
        return {"n": self.given}


@pytest.mark.parametrize("kind", ["cancelled", "exit", "interrupt", "own"])
def test_whatever_the_inputs_raise_is_raised_where_the_results_are_read(kind: str, tmp_path: Path) -> None:
    with pytest.raises(type_of(kind)):
        list(orchestrator.map(double, Raising(kind), ledger=tmp_path / "l.db"))


def test_a_program_that_lets_a_cancellation_of_its_inputs_through_ends_by_it(tmp_path: Path) -> None:
    async def main() -> None:
        async with orchestrator.Orchestrator(tmp_path / "l.db") as orc:
            await orc.submit(Raising("cancelled"), endpoint=double, name="night")

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
