"""Draws the pictures of the README: a run under way, and the end of one with failures, both from real runs.

python -m tests.pictures

The service is the embedded emulator. The display is the program's own, and what the commands print.
"""

import re
import tempfile
from collections.abc import Callable, Mapping
from contextlib import chdir
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
from anyio.from_thread import start_blocking_portal
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

from orchestrator.api.foreground.run import run
from orchestrator.cli.framework.flags_to_requests import request_of_run
from orchestrator.cli.output.consoles import QuietConsole
from orchestrator.cli.output.live_display import Display
from orchestrator.cli.output.status_texts import finished
from orchestrator.emulator.serving import serve
from orchestrator.settings.sources import choose
from orchestrator.views.status import Snapshot
from tests.cli.command_line import call

FOLDER: Final = Path(__file__).parents[1] / "docs" / "pictures"
UNDER_WAY: Final = "under-way.svg"
FAILURES: Final = "failures.svg"

WIDTH: Final = 80
SHARE: Final = 0.43
"""So much of the run is done in the picture of one under way."""

RUN: Final = ("run", "prompts.jsonl", "--endpoint", "abc123", "--output", "results.jsonl")

FORMAT: Final = re.sub(r"@font-face \{\{.*?\}\}", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
"""Rich's own without fonts from the network: the viewer's monospaced one is good enough."""

RARE: Final = 40
"""Every so manieth prompt fails in one of the three ways."""


async def worker(job: Mapping[str, Any]) -> object:
    """A made-up model, which fails in three ways now and then."""
    prompt = job["input"]["prompt"]
    number = int(prompt.rpartition(" ")[2])
    await anyio.sleep(0.05)
    match number % RARE:
        case 7:
            raise ValueError(f"the seed of picture {number} is no number")
        case 9:
            raise MemoryError(f"CUDA out of memory: tried to allocate {number} MiB")
        case 11 if number < 5 * RARE:
            raise ConnectionError(f"no answer from 10.0.0.{number}")
    return {"caption": f"A picture of {prompt}"}


class _Picture(QuietConsole):
    """Keeps how the run stands once its share is done, and stops it then."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self._enough = jobs * SHARE
        self.stop = anyio.Event()
        self.seen: Snapshot | None = None

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Looks until then."""
        while True:
            seen = look()
            if self.seen is None and finished(seen.counts) >= self._enough:
                self.seen = seen
                self.stop.set()
            await anyio.sleep(0.05)


def draw(folder: Path, *, jobs: int = 1_000, workers: int = 12) -> None:
    """Draws both pictures into `folder`, from two runs of `jobs` jobs each."""
    folder.mkdir(exist_ok=True)
    with start_blocking_portal() as portal, tempfile.TemporaryDirectory() as scratch, chdir(scratch):  # noqa: SIM117
        with portal.wrap_async_context_manager(serve(worker, workers=workers, seed=1)) as service:
            environment = {**service.environment(), "COLUMNS": str(WIDTH)}
            rows = ({"custom_id": f"night-{n}", "input": {"prompt": f"a fox, no. {n}"}} for n in range(jobs))
            Path("prompts.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
            _save(folder / UNDER_WAY, _under_way(environment, jobs))
            Path("orchestrator.db").unlink()  # the second picture is of another run, from its beginning
            _save(folder / FAILURES, _failures(environment))


def _under_way(environment: Mapping[str, str], jobs: int) -> Console:
    picture = _Picture(jobs)
    request = request_of_run(
        ["prompts.jsonl"], choose({"endpoint": "abc123", "name": "prompts"}, environment), environment
    )
    anyio.run(partial(run, request, picture, stop=picture.stop))
    assert picture.seen is not None
    console = _console(f"orchestrator {' '.join(RUN)}", f"prompts: {jobs:,} rows checked")
    console.print(Display(picture.seen))
    return console


def _failures(environment: Mapping[str, str]) -> Console:
    words = (*RUN, "--max-attempts", "1")
    ended = call(words, environment=environment).stderr.splitlines()
    end = next(n for n, line in enumerate(ended) if line.startswith("prompts: finished"))
    shown = call(("failures",), environment=environment).output.splitlines()
    return _console(f"orchestrator {' '.join(words)}", *ended[end:], "", "$ orchestrator failures", *shown)


def _console(command: str, *lines: str) -> Console:
    """A terminal that remembers what is on it: a command, and what it printed."""
    console = Console(
        record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor", highlight=False
    )
    for line in (f"$ {command}", *lines):
        console.print(Text(line, style="bold" if line.startswith("$ ") else ""))
    return console


def _save(path: Path, console: Console) -> None:
    path.write_text(console.export_svg(title="orchestrator", code_format=FORMAT, unique_id=path.stem), encoding="utf-8")


if __name__ == "__main__":
    draw(FOLDER)
    print(*(f"written: {FOLDER / name}" for name in (UNDER_WAY, FAILURES)), sep="\n")
