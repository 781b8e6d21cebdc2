"""Commands of the user's: each in a session of its own, so that it can be ended with all that it has begun."""

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import IO, Final

import anyio
from anyio import to_thread

from orchestrator.engine.flows.command_output import CommandFailed

OUTPUT_SHOWN: Final = 500
"""So many characters of what a command says are told where it fails."""

STOP_S: Final = 5.0
"""A command that is to end is killed after so long."""


KILLED_S: Final = 10.0
"""So long it may take to end once it is killed."""


async def carry_out(
    command: Sequence[str],
    *,
    told: str,
    folder: Path,
    environ: Mapping[str, str],
    given: IO[bytes] | None = None,
    printed: IO[bytes] | None = None,
    within_s: float | None = None,
) -> None:
    """Runs the command, which is `told` of like that, in `folder`: with `given` on its standard input, and what it
    prints in `printed`. Raises `CommandFailed`. When we are cancelled, or its time is over, it is stopped.
    """
    with tempfile.TemporaryFile() as said:  # no pipe: what it leaves running keeps nobody waiting
        process = await begin(
            command, told=told, folder=folder, environ=environ, given=given, printed=printed, said=said
        )
        try:
            await to_thread.run_sync(partial(process.wait, within_s), abandon_on_cancel=True)
        except subprocess.TimeoutExpired:
            await stop_subprocess(process)
            raise CommandFailed(f"{told} did not end within {within_s:g} s") from None
        except BaseException:
            await stop_subprocess(process)
            raise
        said.seek(max(0, said.seek(0, os.SEEK_END) - 2 * OUTPUT_SHOWN))
        check_command(process, told, said.read().decode(errors="replace"))


async def begin(
    command: Sequence[str],
    *,
    told: str,
    folder: Path,
    environ: Mapping[str, str],
    given: IO[bytes] | None = None,
    printed: IO[bytes] | None = None,
    said: IO[bytes],
) -> "subprocess.Popen[bytes]":
    """Begins the command; what it says on its standard error goes to `said`. Raises `CommandFailed`."""

    def started() -> "subprocess.Popen[bytes]":
        return subprocess.Popen(  # noqa: S603  the user's own command
            command,
            stdin=given or subprocess.DEVNULL,
            stdout=printed or subprocess.DEVNULL,
            stderr=said,
            cwd=folder,
            env=environ,
            start_new_session=True,
        )

    try:
        return await to_thread.run_sync(started)
    except (OSError, ValueError) as error:
        raise CommandFailed(f"{told} cannot be run ({getattr(error, 'strerror', None) or error})") from None


def has_ended(process: "subprocess.Popen[bytes]", *, within_s: float) -> bool:
    """Whether the command has, after so long at most. Called in a thread."""
    try:
        process.wait(within_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def has_left_some(process: "subprocess.Popen[bytes]") -> bool:
    """Whether anything that the command has begun, which has ended, goes on."""
    try:
        os.killpg(process.pid, 0)
    except PermissionError:
        return True
    except ProcessLookupError:
        return False
    return True


def check_command(process: "subprocess.Popen[bytes]", told: str, said: str) -> None:
    """Raises `CommandFailed` where the command, which has ended, has failed."""
    code = process.returncode
    if code:
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit code {code}"
        end = _end_of(said.strip())
        raise CommandFailed(f"{told} {how}{end and ': '}{end}")


def _end_of(said: str) -> str:
    """The end of what it said, from the beginning of a word on: of a secret that is cut in two nobody finds a half."""
    if len(said) <= OUTPUT_SHOWN:
        return said
    _, *words = re.split(r"(?<=\s)", said[-OUTPUT_SHOWN - 1 :], maxsplit=1)
    return words[0] if words else ""


async def stop_subprocess(process: "subprocess.Popen[bytes]") -> None:
    """Ends it and whatever it has begun, first by asking."""
    with anyio.CancelScope(shield=True):
        _signal(process, signal.SIGTERM)
        with anyio.move_on_after(STOP_S):
            await to_thread.run_sync(process.wait, abandon_on_cancel=True)
        _signal(process, signal.SIGKILL)
        with anyio.move_on_after(KILLED_S):  # one that the kernel holds, as on a dead disk, ends later
            await to_thread.run_sync(process.wait, abandon_on_cancel=True)


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # PermissionError: it has made itself somebody else's
        os.killpg(process.pid, number)
