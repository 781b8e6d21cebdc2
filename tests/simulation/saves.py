"""Files made of outputs in a simulated world: what outputs give, where their links lead, and what befalls the folder."""

import base64
import errno
import fcntl
import random
import sqlite3
from collections.abc import AsyncGenerator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.core.jobs.job import Unsaved
from orchestrator.core.outputs.link_addresses import may_be_fetched_from
from orchestrator.core.outputs.linked_pages import is_page
from orchestrator.errors import Unanswered
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.run_request import RunRequest
from tests.simulation.compact import compact
from tests.simulation.plan import Plan
from tests.simulation.save_plan import LINKS, NEVER_A_FILE, Given, SavePlan

MEMBER: Final = "file"
FOLDER: Final = "out"
PAGE: Final = b"<!DOCTYPE html><title>Sign in</title><p>Your session has ended.</p>"
HOST: Final = "https://files.example/"
ADDRESSES: Final = {Given.PRIVATE: "10.1.2.3"}
PUBLIC: Final = "93.184.216.34"
PIECES: Final = 4
SLOW_S: Final = 4.0
"""So long a slow server takes for each piece, at the most."""


def for_saves(request: RunRequest, plan: Plan, folder: Path) -> RunRequest:
    """The request with what a run is told of files."""
    saves = plan.saves
    if saves is None or request.settings is None:
        return request
    rules = SAVE.value_type.read([f"output.{MEMBER}={folder / FOLDER}/{{custom_id}}.bin"])
    return msgspec.structs.replace(
        request, settings=msgspec.structs.replace(request.settings, save=rules, on_unsaved=saves.on_unsaved)
    )


class Outputs:
    """What the rows of a world have for outputs, and files."""

    def __init__(self, plan: SavePlan, seed: int) -> None:
        self._plan, self._seed = plan, seed

    def given(self, n: int) -> Given:
        """How the output of that row gives its file."""
        return random.Random(f"given {self._seed} {n}").choice(self._plan.given)

    def is_never_a_file(self, n: int) -> bool:
        """Whether none can be made of the output of that row, however well all is."""
        return self.given(n) in NEVER_A_FILE

    def content(self, n: int) -> bytes:
        """What is in the file of that row where all is well."""
        chance = random.Random(f"content {self._seed} {n}")
        return chance.randbytes(chance.randint(1, self._plan.bytes_max))

    def file(self, n: int) -> bytes | None:
        """What is in the file that is made of its output; None where none can be."""
        return None if self.is_never_a_file(n) else self.content(self.linked(n))

    def linked(self, n: int) -> int:
        """The row to whose file its link leads."""
        return max(1, n - 1) if self.given(n) is Given.ANOTHER else n

    def output(self, n: int) -> bytes:
        """What a worker makes of that row."""
        return compact({"n": n, MEMBER: self._text(n)})

    def _text(self, n: int) -> str:
        given = self.given(n)
        if given in LINKS:
            return f"{HOST}{given}/{n}"
        if given is Given.TEXT:
            return "no file: out of paper"
        text = base64.b64encode(self.content(n)).decode()
        return text if given is Given.BASE64 else f"data:application/octet-stream;base64,{text}"


class Web:
    """Where links lead, for all processes of a world; the disk may be full while it is asked."""

    def __init__(self, plan: Plan) -> None:
        self._chance = random.Random(f"web {plan.seed}")
        self._calm_at_s = plan.calm_at_s
        self._plan = plan.saves
        self._outputs = None if plan.saves is None else Outputs(plan.saves, plan.seed)

    async def fetch(
        self, url: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool
    ) -> AsyncGenerator[bytes, None]:
        """As `client.http.link_fetcher.fetched_link`."""
        assert self._outputs is not None
        assert self._plan is not None
        given, _, number = url.removeprefix(HOST).partition("/")
        await anyio.sleep(self._chance.uniform(0, 1))
        address = ADDRESSES.get(Given(given), PUBLIC)
        if not may_be_fetched_from(address, networks):
            raise Unanswered(f"it leads to {address}, which is no public address")
        if given == Given.GONE:
            raise Unanswered("files.example answered 403")
        if given == Given.PAGE and not pages and is_page(PAGE, "text/html"):
            raise Unanswered("files.example answered with a page of HTML in place of it")
        content = PAGE if given == Given.PAGE else self._outputs.content(self._outputs.linked(int(number)))
        assert len(content) <= bytes_max
        is_full = anyio.current_time() < self._calm_at_s and self._chance.random() < self._plan.full_share
        size = -(-len(content) // PIECES)
        for at in range(0, len(content), size):
            if at >= size and is_full:
                raise OSError(errno.ENOSPC, "No space left on device")
            if at >= 2 * size and given == Given.CUT:
                break
            yield content[at : at + size]
            await anyio.sleep(self._chance.uniform(0, SLOW_S if given == Given.SLOW else 0.1))
        if given == Given.CUT:
            raise Unanswered("it ended in the middle")


def let_go_of_files(folder: Path) -> None:
    """A process is killed: nobody has what it was writing locked any more, though all processes of a world are one."""
    for each in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # it is closed by now
            if each.readlink().is_relative_to(folder) and each.readlink().suffix == ".tmp":
                fcntl.flock(int(each.name), fcntl.LOCK_UN)


def put_strangers_files(plan: Plan, folder: Path) -> None:
    """What somebody else has in the folder before anything begins."""
    for n in () if plan.saves is None else plan.saves.strangers:
        (folder / FOLDER).mkdir(exist_ok=True)
        (folder / FOLDER / f"job-{n}.bin").write_bytes(strange_file(plan, n))


def strange_file(plan: Plan, n: int) -> bytes:
    """Somebody else's, by the name and of the size of what is to be that row's."""
    assert plan.saves is not None
    return b"s" * len(Outputs(plan.saves, plan.seed).file(n) or b"none")


def is_to_be_saved(ledger: Path, run: str) -> bool:
    """Whether results of that run are to become files that are none yet: the command is given again."""
    words = (Unsaved.DISK.value, Unsaved.LATER.value)
    with closing(sqlite3.connect(ledger)) as db:
        query = f"SELECT count(*) FROM counts JOIN runs ON runs.id = run_id WHERE runs.name = ? AND n > 0 AND counts.name IN ({', '.join('?' * len(words))})"
        return bool(db.execute(query, (run, *words)).fetchone()[0])


async def take_the_folder_away(plan: Plan, folder: Path) -> None:
    """Puts a file in the place of the folder, and the folder back, as the plan has it."""
    out, aside = folder / FOLDER, folder / "unmounted"
    for from_s, until_s in () if plan.saves is None else plan.saves.away:
        await anyio.sleep_until(from_s)
        if out.exists():
            out.rename(aside)
        out.write_bytes(b"")
        await anyio.sleep_until(until_s)
        out.unlink()
        if aside.exists():
            aside.rename(out)
