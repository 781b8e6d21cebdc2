"""`orchestrator emulate`: the service imitated on a port, until Ctrl-C.

Its settings stand apart from those of runs, in the file and in the environment (`emulated.EMULATOR`).
"""

import os
from collections.abc import Callable, Mapping
from functools import partial

import typer

from orchestrator.api.emulation import emulate_request as emulated
from orchestrator.api.emulation.emulate_request import EMULATOR, EmulateRequest
from orchestrator.cli.framework.flags import Flags, also, flags_of
from orchestrator.cli.framework.runner import execute, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.cli.output.consoles import QuietConsole, console_for_stderr
from orchestrator.errors import UsageError
from orchestrator.settings.sources import Choices, choose


def _carry_out(flags: Flags, prepare: Callable[[Choices], EmulateRequest]) -> None:
    with exit_if_refused():
        choices = choose(flags, os.environ, EMULATOR)
        request, as_json = prepare(choices), choices.is_on(emulated.JSON)
        if as_json and request.run is not None:
            raise UsageError(
                f"{emulated.JSON} and {emulated.RUN} exclude each other: the command has the standard output"
            )
    console = console_for_stderr(quiet=False)
    raise typer.Exit(
        execute(partial(_emulate, console, request, as_json=as_json), needs="orchestrator.api.emulation.emulate")
    )


@also(_carry_out, **flags_of(*emulated.EMULATE))
def emulate(*, choices: Choices) -> EmulateRequest:
    """Serve a stand-in for the whole service until Ctrl-C.

    Without function or worker, create endpoints first.

    Examples:
        orchestrator emulate --handler handlers.py:caption --workers 8
        orchestrator emulate --handler handlers.py:caption --run "pytest -x"
    """
    return emulated.emulate_request(choices)


async def _emulate(console: QuietConsole, request: EmulateRequest, *, as_json: bool) -> int:
    from orchestrator.api.emulation.emulate import emulate
    from orchestrator.cli.framework.signals import stop_on_signals

    async with stop_on_signals(console, "stopping") as stop:
        return await emulate(request, partial(show_place, request, as_json=as_json), stop)


def show_place(
    request: EmulateRequest, urls: Mapping[str, str], environment: Mapping[str, str], *, as_json: bool
) -> None:
    """Says where the emulator is, and what to set to use it."""
    if request.run is not None:
        streams.say(f"serving {_served(request)} at {urls['serverless_url']} for: {request.run}")
        return
    if as_json:
        streams.put_json({"urls": dict(urls), "environment": dict(environment)})
        return
    streams.say(f"serving {_served(request)} at {urls['serverless_url']}; stop with Ctrl-C")
    for name, url in urls.items():
        streams.say(f"  {name:<15} {url}")
    streams.say("for this program and the official tools:")
    for name, value in environment.items():
        streams.say(f"  export {name}={value}")


def _served(request: EmulateRequest) -> str:
    named = [text.partition("=")[0] for text in (*request.endpoints, *request.http_endpoints)]
    named = ["load balancing endpoints once they are created" if name == "*" else name for name in named]
    every = request.handler or request.worker
    return ", ".join([*named, *([every] if every else [])]) or "endpoints once they are created"
