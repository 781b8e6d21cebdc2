"""A notebook in a real kernel, whose event loop runs: the example as it stands, and cells that are interrupted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import nbformat
import pytest
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

from tests.system.processes import ROOT

pytestmark = [pytest.mark.anyio, pytest.mark.system]

EXAMPLE = ROOT / "examples" / "notebook.ipynb"
SLOW = """
from pathlib import Path
from time import sleep

def slow(job):
    while job["input"]["n"] >= 4 and not Path("go").exists():
        sleep(0.05)
    return job["input"]["n"]
"""
MAP = """
for result in orchestrator.map(slow, ({"n": n} for n in range(12)), name="night", ledger="map.db"):
    print(result.output)
"""
ASYNC = """
async with Orchestrator("async.db") as orc:
    run = await orc.submit(({"n": n} for n in range(12)), endpoint=slow, name="night")
    async for result in run.results():
        print(result.output)
"""


class Notebook(NotebookClient):
    """The example, and cells behind it."""

    def __init__(self, folder: Path) -> None:
        notebook = nbformat.read(EXAMPLE, as_version=4)  # type: ignore[no-untyped-call]
        super().__init__(notebook, allow_errors=True, timeout=60, resources={"metadata": {"path": str(folder)}})
        self._folder = folder
        self._printed = anyio.Event()

    def process_message(self, message: dict[str, Any], *where: Any) -> Any:
        """Hears what the kernel says."""
        if message["msg_type"] == "stream":
            self._printed.set()
        return super().process_message(message, *where)

    async def run(self, number: int) -> list[Any]:
        """What the cell of this number puts out."""
        cell = self.nb.cells[number]
        await self.async_execute_cell(cell, number)
        return list(cell.outputs)

    async def run_new(self, source: str) -> list[Any]:
        """What a new cell puts out."""
        self.nb.cells.append(nbformat.v4.new_code_cell(source))  # type: ignore[no-untyped-call]
        return await self.run(len(self.nb.cells) - 1)

    async def interrupt(self, source: str) -> list[Any]:
        """The same, but it is interrupted when it has printed something."""
        found: list[Any] = []

        async def run() -> None:
            found.extend(await self.run_new(source))

        self._printed = anyio.Event()
        async with anyio.create_task_group() as group:
            group.start_soon(run)
            await self._printed.wait()
            assert isinstance(self.km, AsyncKernelManager)
            await self.km.interrupt_kernel()
            await anyio.Path(self._folder, "go").touch()  # ends what the function waits for
        return found


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    client = Notebook(tmp_path)
    async with client.async_setup_kernel():
        yield client


def said(outputs: list[Any]) -> str:
    return "".join(each.text for each in outputs if each.output_type == "stream" and each.name == "stdout")


@pytest.mark.slow
async def test_the_example_runs_and_a_cell_that_is_interrupted_goes_on_when_it_is_run_again(
    notebook: Notebook, tmp_path: Path
) -> None:
    _, mapped, asynchronous = [
        await notebook.run(number) for number, cell in enumerate(notebook.nb.cells) if cell.cell_type == "code"
    ]
    assert said(mapped).count("A picture of") == 3
    assert said(asynchronous) == "1 failed: KeyError: 'prompt'\n"
    assert asynchronous[-1].data["text/plain"] == "3"

    await notebook.run_new(SLOW)
    for cell in (MAP, ASYNC):
        outputs = await notebook.interrupt(cell)
        assert [each.ename for each in outputs if each.output_type == "error"] in (
            ["KeyboardInterrupt"],
            ["CancelledError"],
        )
        assert sorted(map(int, said(await notebook.run_new(cell)).split())) == list(range(12))
        (tmp_path / "go").unlink()
