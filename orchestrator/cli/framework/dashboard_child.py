"""`--dashboard`: the dashboard as a child of whoever works on a ledger, which has no key, and ends with its parent.

Of the environment it gets what a program needs to run at all, what it reaches a ledger on a server by, and what is
meant for the dashboard: no API key, and nothing that a setting names as `env:NAME`. It listens to its standard input,
which ends with us however we end.
"""

import os
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec

from orchestrator.cli.output.consoles import QuietConsole
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, run_request
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_flags import DASHBOARD, DASHBOARD_ON
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARDS, DashboardSettings
from orchestrator.settings.setting import setting_of

if TYPE_CHECKING:
    from anyio.abc import Process

ENDS_WITH_INPUT: Final = f"{DASHBOARDS.prefix}ENDS_WITH_INPUT"
"""The variable that has a dashboard end with its standard input."""

START_S: Final = 30.0
GRACE_S: Final = 5.0

_KEPT: Final = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LANGUAGE|LC_\w+|TZ|TMPDIR|TERM|NO_COLOR|VIRTUAL_ENV|PYTHON\w+|LD_LIBRARY_PATH"
    r"|DYLD_\w+|SSL_CERT_\w+|OTEL_\w+|STATE_DIRECTORY|XDG_STATE_HOME|PGPASSWORD|PGPASSFILE|PGSSL\w+"
    rf"|{DASHBOARDS.prefix}\w+"
)
_ADDRESS_LIKE: Final = re.compile(r"[^\s/]*:[0-9]+")


def spelled_out(arguments: Sequence[str]) -> list[str]:
    """`arguments`, in which the flag has its value where none follows: what may be an address is one."""
    found: list[str] = []
    for at, word in enumerate(arguments):
        if word == "--":
            return [*found, *arguments[at:]]
        follows = arguments[at + 1] if at + 1 < len(arguments) else ""
        is_bare = word == str(DASHBOARD) and not _ADDRESS_LIKE.fullmatch(follows)
        found.append(f"{word}={DASHBOARD_ON}" if is_bare else word)
    return found


def child_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What the child gets of `environ`."""
    kept = {name: value for name, value in environ.items() if _KEPT.fullmatch(name)}
    return {**kept, ENDS_WITH_INPUT: "1"}


class DashboardChild:
    """One that is to be begun at `address`, or wherever it is set otherwise, for the ledger at that path."""

    def __init__(self, address: str, ledger: LedgerAddress, configuration: str | None) -> None:
        self._words = [sys.executable, "-m", "orchestrator", "dashboard", "serve", str(command_flags.JSON)]
        self._words += run_request.LEDGER.words(ledger)
        if address != DASHBOARD_ON:
            self._words += [str(setting_of(DashboardSettings, "listen")), address]
        if configuration is not None:
            self._words += [str(command_flags.CONFIG), configuration]

    @asynccontextmanager
    async def beside(self, console: QuietConsole) -> AsyncIterator[None]:
        """Serves it while the block runs. Raises `UsageError` where it cannot be served: nothing has begun then."""
        import anyio

        process = await anyio.open_process(
            self._words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None,  # what it complains of is for whoever has begun us
            env=child_environment(os.environ),
            start_new_session=True,  # a Ctrl-C is ours: it is there to be looked at until we are done
        )
        try:
            await self._say_where(process, console)
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process)

    async def _say_where(self, process: "Process", console: QuietConsole) -> None:
        import anyio

        said = b""
        with anyio.move_on_after(START_S):
            while b"\n" not in said:
                try:
                    said += await process.stdout.receive()  # type: ignore[union-attr]  # it is a pipe
                except anyio.EndOfStream:
                    break
        if b"\n" not in said:
            raise UsageError(
                f"the dashboard did not start, and nothing else was begun; leave {DASHBOARD} out, or give it another"
                f" address: {DASHBOARD} 127.0.0.1:0"
            )
        place: dict[str, Any] = msgspec.json.decode(said)
        console.info(f"the dashboard is at {place['url']}")
        if place["sign_in"] is not None:
            console.info(f"sign in there once, within 5 minutes: {place['sign_in']['link']}")


@asynccontextmanager
async def beside(child: DashboardChild | None, console: QuietConsole) -> AsyncIterator[None]:
    """Serves `child` while the block runs, if there is to be one."""
    if child is None:
        yield
    else:
        async with child.beside(console):
            yield


async def _end(process: "Process") -> None:
    import anyio

    await process.stdin.aclose()  # type: ignore[union-attr]  # it is a pipe
    with anyio.move_on_after(GRACE_S):
        await process.wait()
    if process.returncode is None:
        process.kill()
    await process.aclose()


def child_of(given: Mapping[str, Any], ledger: LedgerAddress, configuration: str | None) -> DashboardChild | None:
    """The one that the flags ask for, if any."""
    address = given.get(DASHBOARD.name)
    return None if address is None else DashboardChild(address, ledger, configuration)
