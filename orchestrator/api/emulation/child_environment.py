"""Programs that are pointed at an emulator: the file of variables for them, and one that is started with them set."""

import os
import shlex
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import anyio

from orchestrator.errors import UsageError
from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.settings.setting import Setting

OWNER_ALONE: Final = 0o600

GRACE_S: Final = 3.0
"""How long a program may take to end by itself: it hears of Ctrl-C as we do, and may have a last word to say."""

PATIENCE_S: Final = 10.0
"""How long one may take that was asked to end, before it is killed."""

KILLED: Final = 128
"""What a shell adds to the number of the signal that ended a program."""


def command_of(setting: Setting[Any], text: str, python: str | None = None) -> tuple[str, ...]:
    """The program of a command, found, and its arguments; `python` is what a bare `python` stands for, if for a certain
    one. Raises `UsageError` with the option that it was given by.
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{setting} {text}: {error}") from error
    if not words:
        raise UsageError(f"{setting}: write a command, as in {setting} 'python handler.py'")
    program = python if python and words[0] in {"python", "python3"} else shutil.which(words[0])
    if program is None:
        raise UsageError(f"{setting}: there is no program {words[0]}")
    return (program, *words[1:])


def write_environment(path: Path, environment: Mapping[str, str]) -> None:
    """`NAME=VALUE` a line, whole or not at all, for its owner alone: there is a key among them. Raises `UsageError`, or
    `StorageError` where there is no room.
    """
    with Replacement(path, mode=OWNER_ALONE) as file:
        file.write("".join(f"{name}={value}\n" for name, value in environment.items()).encode())
        file.commit()


async def run_command(
    command: tuple[str, ...], environment: Mapping[str, str], stop: anyio.Event, *, grace_s: float = GRACE_S
) -> int:
    """The exit code of a command that is run with `environment` besides ours; it is asked to end `grace_s` after `stop`
    was set.
    """
    everything = {**os.environ, **environment}
    process = await anyio.open_process(command, stdin=None, stdout=None, stderr=None, env=everything)
    async with process, anyio.create_task_group() as tasks:

        async def end() -> None:
            await stop.wait()
            await anyio.sleep(grace_s)
            with suppress(ProcessLookupError):  # it has ended, and only nobody has noticed yet
                process.terminate()
                await anyio.sleep(PATIENCE_S)
                process.kill()

        tasks.start_soon(end)
        code = await process.wait()
        tasks.cancel_scope.cancel()
    return code if code >= 0 else KILLED - code
