"""What a program's inputs raise is raised to it, whatever that is, and its runs go on."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.api.python.results import Result
from tests.api.desk import desk, numbers
from tests.raising import raises, type_of
from tests.simulation.world import ENDPOINT

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

RAISED = ("cancelled", "exit", "generator_exit", "own")
"""Some of all kinds: `tests/engine/intake/test_row_pump.py` draws every one."""


class In:
    """One input, and then an error."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.given = 0

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return self

    def __next__(self) -> dict[str, Any]:
        self.given += 1
        if self.given > 1:
            raises(self.kind)
        return {"n": self.given}


class Awaited(In):
    def __aiter__(self) -> AsyncIterator[dict[str, Any]]:
        return self

    async def __anext__(self) -> dict[str, Any]:
        return self.__next__()


async def ended(results: AsyncIterator[Result]) -> list[Result]:
    return [result async for result in results]


Make = Callable[[str], Any]
MADE = pytest.mark.parametrize("inputs", [In, Awaited], ids=["in a thread", "async"])


@pytest.mark.slow
@MADE
async def test_a_program_is_raised_what_its_inputs_raise_and_the_run_goes_on(tmp_path: Path, inputs: Make) -> None:
    async with desk(tmp_path) as d, d.orchestrator() as orc:
        for kind in RAISED:
            with anyio.fail_after(600):
                with pytest.raises(type_of(kind)):
                    await orc.submit(inputs(kind), endpoint=ENDPOINT, name=kind)
                with pytest.raises(type_of(kind)):
                    await orc.append(kind, inputs(kind))
                with pytest.raises(type_of(kind)):
                    await orc.plan(inputs(kind), endpoint=ENDPOINT, execution_time=1)
                with pytest.raises(type_of(kind)):
                    await ended(orc.map(ENDPOINT, inputs(kind), name=f"{kind}-2"))
        run = await orc.submit(numbers(2), endpoint=ENDPOINT, name="cancelled")
        assert (await run.wait())["succeeded"] == 2
