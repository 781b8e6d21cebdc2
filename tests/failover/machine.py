"""A machine on which a process serves the ledger: with lines of its own to ledger and service, a folder, and a clock."""

import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from anyio import to_thread

from tests.failover.wrong_clock import OFFSET, WrongClock
from tests.postgres.proxy import Proxy
from tests.system.processes import ROOT, Desk, Launch, Program, Verdict

PATIENCE_S: Final = 7_200.0
"""A process that takes longer is killed, so that nothing is left behind."""

ENDED_S_MAX: Final = 60.0
SERVICE: Final = "http://service.example"
"""Each machine has a way of its own there, as an HTTP proxy: so the name is the same for all."""

WEBHOOK_KEY: Final = "5e" * 32

Told = TypeVar("Told")


class Machine:
    """The one called `name`, which serves with these `flags`. What it sends bears a key that no other process has."""

    def __init__(
        self, name: str, folder: Path, ledger: Proxy, service: Proxy, flags: Sequence[str], launch: Launch | None
    ) -> None:
        self.name = name
        self.ledger = ledger
        self.service = service
        self.clock = WrongClock(folder / "clock")
        self.started = 0
        """How often its process was started."""

        self.keys: dict[int, str] = {}
        """With which each of its processes has sent, by their ids."""

        self._state = folder / "state"
        self._flags = flags
        self._desk = Desk(folder, launch or on_its_clock)
        self._program: Program | None = None

    @property
    def key(self) -> str:
        """With which its latest process sends."""
        return key_of(self.name, self.started)

    @property
    def is_running(self) -> bool:
        """Whether there is a process, which may stand still."""
        return self._program is not None and not self._program.is_over

    async def start(self, *more: str) -> None:
        """Starts another process, with further flags. Returns once it serves, or stands by."""
        assert not self.is_running
        self.started += 1
        command = ("serve", "--ledger", self.ledger.url, "--serverless-url", SERVICE, *self._flags, *more)
        self._program = self._desk.start(*command, environ=self._environ(), within_s=PATIENCE_S)
        self.keys[self.pid] = self.key
        await away(partial(self._program.until_said, "postgresql://"))

    @property
    def pid(self) -> int:
        """The process id of its process."""
        assert self._program is not None
        return self._program.pid

    @property
    def said(self) -> str:
        """What its process has said until now."""
        return "" if self._program is None else self._program.said

    async def until_said(self, text: str) -> None:
        """Returns once its process has said that."""
        assert self._program is not None
        await away(partial(self._program.until_said, text))

    def signal(self, number: int) -> None:
        """Sends its process a signal."""
        assert self._program is not None
        self._program.signal(number)

    async def kill(self) -> None:
        """SIGKILL."""
        assert self._program is not None
        await away(self._program.kill)

    async def lose_power(self) -> None:
        """Everything ends at once, nobody is told, and what was not on a disk is gone."""
        self.ledger.fall_silent()
        self.service.fall_silent()
        await self.kill()
        shutil.rmtree(self._state, ignore_errors=True)

    async def ended(self) -> Verdict:
        """How its process ended, which must do so soon."""
        assert self._program is not None
        return await away(partial(self._program.ended, within_s=ENDED_S_MAX))

    async def stop(self) -> Verdict:
        """SIGTERM."""
        self.signal(signal.SIGTERM)
        return await self.ended()

    def clear(self) -> None:
        """Nothing of it is left, however it went."""
        if self._program is not None and self.is_running:
            self._program.kill()

    def _environ(self) -> Mapping[str, str]:
        return {
            "ORCHESTRATOR_API_KEY": self.key,
            "ORCHESTRATOR_WEBHOOK_KEY": WEBHOOK_KEY,
            "XDG_STATE_HOME": str(self._state),
            "http_proxy": self.service.url,
            "no_proxy": "",
            OFFSET: str(self.clock.path),
        }


def key_of(name: str, number: int) -> str:
    """The key with which the process of that number sends from the machine of that name."""
    return f"key-{name}-{number}"


def on_its_clock(
    arguments: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    before: Callable[[], object] | None = None,
) -> "subprocess.Popen[bytes]":
    """The program, by the clock of its machine, which can be set."""
    assert before is None
    return subprocess.Popen(
        [sys.executable, "-m", "tests.failover.wrong_clock", *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


async def away(call: Callable[[], Told]) -> Told:
    """What `call` returns, in a thread: the lines go on meanwhile."""
    return await to_thread.run_sync(call)
