"""The commands of stages: given files of results, they print rows. What they say on the way is told as they say it."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any, Final

import anyio
import msgspec
from anyio import from_thread, to_thread

from orchestrator.api.messages import subprocesses
from orchestrator.core.pipelines.flow_paths import moment
from orchestrator.core.pipelines.pipeline import Pipeline, Stage, run_name
from orchestrator.core.pipelines.placeholders import Word, expanded, placeholders, variables
from orchestrator.core.text.json_compact import compact
from orchestrator.engine.flows.command_output import CommandFailed, PrintedLine
from orchestrator.formats.input.custom_id import decode_custom_id
from orchestrator.ledger.flows.flow_rows import Flow
from orchestrator.units import MIB

LINES_MAX: Final = 100_000
PRINTED_BYTES_MAX: Final = 256 * MIB
"""So much of what a command prints becomes rows: they are written by one transaction."""

LOOK_S: Final = 0.2
"""How often it is looked whether a command has said something."""

BLOCK_BYTES: Final = 64 * 1024
"""So much of what it says is read at once; a longer line is told in parts."""

SHOWN_CHARS_MAX: Final = 200
"""So much of a command is told."""

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_names: Final = msgspec.json.Decoder(list[str])


def files_given(stage: Stage) -> set[str]:
    """The stages whose results the command of `stage` is given as files."""
    return {each.argument for text in stage.command for each in placeholders(text) if each.word is Word.FILE}


async def print_rows(
    flow: Flow,
    pipeline: Pipeline,
    stage: Stage,
    files: Mapping[str, str],
    environ: Mapping[str, str],
    say: Callable[[str], None],
) -> list[PrintedLine]:
    """Runs the command of `stage`, given those `files` by their stages, and returns what it prints; what it says on its
    standard error goes to `say`, line by line. Raises `CommandFailed`. When we are cancelled it is stopped, with all
    that it has started.
    """
    at, name = moment(pipeline, flow.fire_at, flow.again), run_name(flow.name, stage.name)
    command = [expanded(each, at, files) for each in stage.command]
    say(f"{name} runs {shlex.join(command)}")
    return await printed_rows(
        command, Path(pipeline.folder), {**environ, **variables(at)}, lambda line: say(f"{name}: {line}")
    )


async def printed_rows(
    command: Sequence[str], folder: Path, environ: Mapping[str, str], say: Callable[[str], None]
) -> list[PrintedLine]:
    """What a command prints that runs in `folder`."""
    with tempfile.TemporaryFile(prefix="orchestrator-") as printed:
        await _run(command, folder, environ, say, printed)
        printed.seek(0, os.SEEK_END)
        if printed.tell() > PRINTED_BYTES_MAX:
            raise CommandFailed(f"{command[0]} prints more than {PRINTED_BYTES_MAX // MIB} MiB")
        printed.seek(0)
        return await to_thread.run_sync(lambda: list(_lines(command[0], printed)))


async def _run(
    command: Sequence[str],
    folder: Path,
    environ: Mapping[str, str],
    say: Callable[[str], None],
    printed: IO[bytes],
) -> None:
    told = shlex.join(command)[:SHOWN_CHARS_MAX]
    with tempfile.TemporaryFile(prefix="orchestrator-") as said:  # no pipe: what it leaves running keeps nobody waiting
        process = await subprocesses.begin(
            command, told=told, folder=folder, environ=environ, printed=printed, said=said
        )
        following = partial(_follow, process, said, say)
        try:
            end = await to_thread.run_sync(following, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1))
        except BaseException:
            await subprocesses.stop_subprocess(process)
            raise
    subprocesses.check_command(process, told, end)
    if subprocesses.has_left_some(process):
        say(f"{told} has ended and left processes running: they go on, and nothing that they print is read any more")


def _follow(process: "subprocess.Popen[bytes]", said: IO[bytes], say: Callable[[str], None]) -> str:
    """Tells what it says until it has ended; returns the end of that."""
    lines = _SaidLines(said)
    while True:
        has_ended = subprocesses.has_ended(process, within_s=LOOK_S)
        for line in lines.new(to_the_end=has_ended):
            from_thread.run_sync(say, line)
        if has_ended:
            return lines.end


class _SaidLines:
    """The lines of a file that grows. Another process has the same place in it, so it is read by place."""

    def __init__(self, file: IO[bytes]) -> None:
        self._descriptor = file.fileno()
        self._place = 0
        self._begun = b""
        self.end = ""

    def new(self, *, to_the_end: bool) -> Iterator[str]:
        """Those that have come since; `to_the_end` also a last one that is not ended."""
        while block := os.pread(self._descriptor, BLOCK_BYTES, self._place):
            self._place += len(block)
            *whole, self._begun = (self._begun + block).split(b"\n")
            yield from map(self._told, whole)
            if len(self._begun) >= BLOCK_BYTES:
                yield self._rest()
        if to_the_end and self._begun:
            yield self._rest()

    def _rest(self) -> str:
        rest, self._begun = self._begun, b""
        return self._told(rest)

    def _told(self, line: bytes) -> str:
        text = line.decode(errors="replace").rstrip()
        self.end = f"{self.end}{text}\n"[-2 * subprocesses.OUTPUT_SHOWN :]
        return text


def _lines(program: str, printed: IO[bytes]) -> Iterator[PrintedLine]:
    for number, line in enumerate(filter(None, map(bytes.strip, printed)), start=1):
        if number > LINES_MAX:
            raise CommandFailed(f"{program} prints more than {LINES_MAX:,} lines")
        try:
            yield read_line(line)
        except (ValueError, RecursionError) as error:
            raise CommandFailed(f"line {number} of what {program} prints is no row: {error}") from None


def read_line(line: bytes) -> PrintedLine:
    """A row: any JSON. Of an object, `custom_id` and `parents` say what it is called and made of, and `output`, or else
    whatever is left of it, is the output. Raises `ValueError`.
    """
    line = compact(line)
    if not line.startswith(b"{"):
        return PrintedLine(None, line, ())
    members: dict[str, Any] = _members.decode(line)
    custom_id = decode_custom_id(bytes(members.pop("custom_id"))) if "custom_id" in members else None
    parents: Sequence[str] = ()
    if "parents" in members:
        try:
            parents = _names.decode(members.pop("parents"))
        except msgspec.ValidationError:
            raise ValueError("its parents are no list of custom_ids") from None
    output = bytes(members["output"]) if "output" in members else msgspec.json.encode(members)
    return PrintedLine(custom_id, output, tuple(parents))
