"""The log file of what processes did with a ledger: one line for each thing that somebody may want to know afterwards.

It holds what the console is told, and besides when a process began and why it ended, what held it up, and the kinds of
failures. Secrets are taken out. It is appended to and rotated by nobody; where it cannot be written any more, that is
said once, and nothing else depends on it.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.clock import Clock
from orchestrator.core.text.redaction import Redactor
from orchestrator.core.text.wording import visible
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.secret_scrubber import API_KEY_LABEL
from orchestrator.errors import UsageError, flag_name, leading, message_of, with_settings_named
from orchestrator.ledger import Ledger
from orchestrator.ledger.holder_text import process_name
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.words_and_defaults import LogFormat
from orchestrator.units import SECOND_US
from orchestrator.views.status import Snapshot

KINDS_MAX: Final = 10
EXAMPLE_CHARS_MAX: Final = 200
LOOK_S: Final = 1.0
"""How often to look what holds the process up."""


class RunLogLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the log, as JSON."""

    at: str
    """UTC, as in 2026-01-31T12:00:00.123456Z."""

    level: str
    event: str
    process: str
    message: str


class LogBook:
    """A console that also writes down what it is told. Raises `UsageError` where its file cannot be opened."""

    def __init__(
        self, console: Console, path: Path, form: LogFormat, *, clock: Clock, secrets: Mapping[str, str]
    ) -> None:
        self._console = console
        self._path = path
        self._form = form
        self._clock = clock
        self._redactor = Redactor(secrets)
        self._process = process_name()
        self._held: str | None = None
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
            self._file: int | None = os.open(path, flags, 0o666)
        except OSError as error:
            raise UsageError(f"{path}: the log cannot be written ({error.strerror})") from error

    def note(self, event: str, message: str, *, level: str = "info") -> None:
        """Writes one line, and nothing where that has failed before."""
        if self._file is None:
            return
        at = datetime.fromtimestamp(self._clock.now() / SECOND_US, UTC).isoformat(timespec="microseconds")
        line = RunLogLine(
            at=at.replace("+00:00", "Z"),
            level=level,
            event=event,
            process=self._process,
            message=self._redactor.text(with_settings_named(message, flag_name)),
        )
        try:
            os.write(self._file, self._encoded(line))
        except OSError as error:
            self.close()
            self._console.warn(f"{self._path}: the log cannot be written any more ({error.strerror})")

    def _encoded(self, line: RunLogLine) -> bytes:
        if self._form is LogFormat.JSON:
            return msgspec.json.encode(line) + b"\n"
        message = visible(line.message).replace("\n", "\n  ")  # a worker's words may hold anything
        return f"{line.at} {line.level} {line.event} [{line.process}] {message}\n".encode(errors="backslashreplace")

    async def note_failures(self, ledger: Ledger, run: int) -> None:
        """Writes down the kinds of failures of `run`, the most frequent ones, with an example of each."""
        for kind in await ledger.reports.job_queries.clusters(run, most=KINDS_MAX):
            message = f"{kind.n:,} {kind.trouble}: {(kind.message or '')[:EXAMPLE_CHARS_MAX]}"
            self.note("failures", message, level="warning")

    async def watch(self, held_up: Callable[[], str | None]) -> None:
        """Notes what holds the process up whenever that changes, until cancelled."""
        while True:
            held = held_up()
            if held != self._held:
                self._held = held
                self.note("hold", held or "nothing holds it up any more", level="warning" if held else "info")
            await anyio.sleep(LOOK_S)

    def close(self) -> None:
        """Writes nothing more."""
        if self._file is not None:
            os.close(self._file)
        self._file = None

    def info(self, line: str) -> None:
        """One line of information."""
        self.note("said", line)
        self._console.info(line)

    def warn(self, line: str) -> None:
        """One line that the person should not miss."""
        self.note("warned", line, level="warning")
        self._console.warn(line)

    async def follow(self, look: Callable[[], Snapshot]) -> None:
        """Shows progress until it is cancelled, and notes what holds the run up."""
        async with anyio.create_task_group() as group:
            group.start_soon(self.watch, lambda: look().why_blocked)
            await self._console.follow(look)

    def ready(self) -> None:
        """What the program was begun for is under way."""
        self._console.ready()

    async def confirm_drop(self, run: str, unsuccessful: int, /) -> bool:
        """What the person wants."""
        return await self._console.confirm_drop(run, unsuccessful)

    async def confirm_stop(self, run: str, served_by: str, /) -> bool:
        """Whether somebody who wants to follow `run` no longer wants it stopped, too."""
        return await self._console.confirm_stop(run, served_by)


def log_of(
    request: RunRequest | ServeRequest, console: Console, clock: Clock, environ: Mapping[str, str]
) -> LogBook | None:
    """The log that `request` asks for, around `console`; None where it asks for none."""
    if request.log_file is None:
        return None
    connection = request.connection
    secrets = {API_KEY_LABEL: connection.api_key}
    secrets |= {f"{API_KEY_LABEL} of {url}": connection.key_for(url, environ) for url in connection.keys}
    return LogBook(console, request.log_file, request.log_format, clock=clock, secrets=secrets)


@contextmanager
def written(log: LogBook | None, what: str, why: Callable[[], str]) -> Iterator[None]:
    """Writes down that the process begins with `what`, and why it ended: an error, or `why`."""
    if log is None:
        yield
        return
    log.note("start", what)
    try:
        yield
    except BaseException as error:
        cause = leading(error)
        log.note("stop", f"{type(cause).__name__}: {message_of(cause)}", level="error")
        raise
    else:
        log.note("stop", why())
    finally:
        log.close()
