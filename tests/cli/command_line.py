"""The command line called in this process. What Typer makes of our functions is made once: making it again for each call
would be half of what a test of the command line costs.
"""

import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import typer
from typer.testing import CliRunner

from orchestrator.api.emulation.emulate_request import EMULATOR
from orchestrator.cli import build
from orchestrator.cli.framework.flags import PROVIDED
from orchestrator.cli.framework.service_access import Connect
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.sources import Choices, choose

LOCAL = "local:handlers.py:caption"
"""An endpoint that needs no key."""


@dataclass(frozen=True)
class Result:
    """How a command ended and what it wrote; `output` is both streams as they came. `exception` was raised by it."""

    exit_code: int
    stdout_bytes: bytes
    stderr_bytes: bytes
    output_bytes: bytes
    exception: BaseException | None

    @property
    def stdout(self) -> str:
        return self.stdout_bytes.decode()

    @property
    def stderr(self) -> str:
        return self.stderr_bytes.decode()

    @property
    def output(self) -> str:
        return self.output_bytes.decode()


def call(
    arguments: Sequence[str],
    *,
    environment: Mapping[str, str],
    given: str | bytes | None = None,
    connect: Connect | None = None,
) -> Result:
    """`orchestrator` with these arguments; `given` is its standard input, and `connect` its way to the account."""
    code: object = 0
    raised: BaseException | None = None
    with CliRunner().isolation(input=given, env=environment) as (stdout, stderr, output):
        try:
            whole().main(args=list(arguments), prog_name="orchestrator", obj=connect)
        except SystemExit as end:
            code = end.code or 0
            raised = end if code else None
        assert isinstance(code, int)
        sys.stdout.flush()
        sys.stderr.flush()
        return Result(code, stdout.getvalue(), stderr.getvalue(), output.getvalue(), raised)


def give(*words: str, **environment: str) -> Result:
    """`orchestrator` with these words and variables."""
    return call(words, environment=environment)


class Asked(NamedTuple):
    """What a command is told that does its work itself."""

    command: Callable[..., object]
    flags: Mapping[str, Any]
    """Its own."""

    choices: Choices


def requested(*words: str, **environment: str) -> Any:
    """What the command that these words name asks the program for, which nobody does: what its own function returns,
    or is told. Raises `UsageError` where the words are refused.
    """
    with CliRunner().isolation(env=environment):
        context = whole().make_context("orchestrator", list(words))
        while hasattr(context.command, "commands"):
            rest = [*context._protected_args, *context.args]
            name, command, rest = context.command.resolve_command(context, rest)
            context = command.make_context(name, rest, parent=context)
        own = inspect.unwrap(context.command.callback)
        flags = {name: None if value == () else value for name, value in context.params.items()}
        choices = choose(flags, os.environ, EMULATOR if context.info_name == "emulate" else RUNS)
        names = inspect.signature(own).parameters
        if inspect.iscoroutinefunction(own):
            return Asked(own, {name: flags[name] for name in names if name not in PROVIDED}, choices)
        known = {**flags, "flags": flags, "choices": choices}
        return own(**{name: known[name] for name in names})


def shown(show: Callable[[], object], **environment: str) -> Result:
    """What `show` puts on the two streams; the exit code is what it returns, if that is a number. Unless it is said, nobody
    says how wide they are: pytest does in its workers.
    """
    with CliRunner().isolation(env={"COLUMNS": None, **environment}) as (stdout, stderr, output):
        code = show()
        sys.stdout.flush()
        sys.stderr.flush()
        return Result(
            code if isinstance(code, int) else 0, stdout.getvalue(), stderr.getvalue(), output.getvalue(), None
        )


@cache
def whole() -> Any:
    """The whole command line, as Typer made it."""
    return typer.main.get_command(build())
