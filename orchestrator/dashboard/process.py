"""The dashboard as a process of its own: it listens, says where, and ends when it is asked to.

It has no use for an API key, nor for what else its environment holds: `drop_secrets` takes that out before anything is
opened. What answers strangers' requests must not hold what they are after. What reaches those who are told that nobody
works is kept, where only what tells them has it.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Final

import anyio
import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from orchestrator.api.messages.abandonment_watch import AbandonmentWatch
from orchestrator.clock import Clock
from orchestrator.dashboard.access.authentication import refuse_unsafe
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.sign_in_links import SignInLink, sign_in_link
from orchestrator.dashboard.access.tokens import Person
from orchestrator.dashboard.application import open_dashboard
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.actions.asker import user_name
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings
from orchestrator.settings.words_and_defaults import API_KEY_VARIABLES
from orchestrator.telemetry.traces.trace_service import send_traces
from orchestrator.web.server import Listener

GRACE_S: Final = 2.0
"""How long answers that are under way may take once it is to end."""

CONNECTIONS_MAX: Final = 128
"""Six to a browser that is open."""

CYCLES_AFTER: Final = 5_000
"""How many more values than before there must be until the collector looks for cycles."""

_SECRET_ENDINGS: Final = ("API_KEY", "_KEY", "_TOKEN", "_SECRET", "_PASSWORD", "_KEY_ID")
"""How variables are called that hold secrets."""

_OF_TRACES: Final = "OTEL_"
"""What is for whoever takes the traces: one of those that are called like a secret is the path of a file."""


class _ToBeMade:
    """An application that is made once it is known where it listens: its cookie is called by the port."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)


class DashboardPlace(msgspec.Struct, frozen=True, kw_only=True):
    """Where a dashboard is, and the first way in."""

    url: str
    sign_in: SignInLink | None
    """None where nobody has to sign in."""


def drop_secrets(
    environ: MutableMapping[str, str], more: Iterable[str] = (), *, telling: Iterable[str] = ()
) -> dict[str, str]:
    """Takes the API keys out of the environment, those in the variables `more`, what is called like a secret, and the
    variables `telling`, by which people are told; returns these, as far as they are there and no API keys.
    """
    keys = {*API_KEY_VARIABLES, *more}
    kept = {name: environ[name] for name in telling if name in environ and name not in keys}
    for name in [*environ]:
        is_called_so = name.upper().endswith(_SECRET_ENDINGS) and not name.startswith(_OF_TRACES)
        if name in keys or name in kept or is_called_so:
            del environ[name]
    assert not (keys | kept.keys()) & environ.keys()
    return kept


async def serve_dashboard(
    ledger: LedgerAddress,
    settings: DashboardSettings,
    *,
    clock: Clock,
    stop: anyio.Event,
    ready: Callable[[DashboardPlace], None],
    connection: ConnectionSettings,
    environ: Mapping[str, str],
) -> None:
    """Serves until `stop` is set; tells `ready` once it answers. While nobody works, it tells the targets of
    `connection` of results that are about to expire, with what `environ` holds.

    Raises `UsageError` where it cannot listen there, the settings would let anybody in, or traces cannot be sent, and
    `StorageError` where its key cannot be kept.
    """
    refuse_unsafe(settings)
    app = _ToBeMade()
    listener = Listener(app, settings.listen, grace_s=GRACE_S, connections_max=CONNECTIONS_MAX)
    settings = msgspec.structs.replace(settings, listen=listener.address)
    with _cycles_found_soon():
        async with open_dashboard(ledger, settings, clock=clock) as app.app, anyio.create_task_group() as tasks:
            if settings.trace is not None:
                await tasks.start(partial(send_traces, ledger, settings.trace, clock=clock))
            telling = Dependencies(clock=clock, environ=environ)
            tasks.start_soon(AbandonmentWatch(path=ledger, connection=connection, dependencies=telling).serve)
            await tasks.start(listener.serve)
            ready(dashboard_place(ledger, settings, clock))
            await stop.wait()
            tasks.cancel_scope.cancel()


@contextmanager
def _cycles_found_soon() -> Iterator[None]:
    """A page leaves thousands of values in cycles, a run none: at a run's number those of several pages were together a
    tenth of the memory of the process (measured).
    """
    before = gc.get_threshold()
    gc.set_threshold(CYCLES_AFTER)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def dashboard_place(ledger: LedgerAddress, settings: DashboardSettings, clock: Clock) -> DashboardPlace:
    """Where the dashboard by these settings is, with a link for whoever has started it. Raises `StorageError`."""
    url = settings.url or f"http://{settings.listen}"
    if settings.no_login:
        return DashboardPlace(url=url, sign_in=None)
    folder = KeyFolder(ledger)
    folder.note_address(url)
    person = Person(name=user_name(), may_act=not settings.read_only)
    return DashboardPlace(url=url, sign_in=sign_in_link(folder, clock, url, person))
