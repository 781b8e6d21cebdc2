"""Connections to a server, by its driver (asyncpg), and what each is told at its beginning."""

import os
import socket
import warnings
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import anyio
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncConnection

from orchestrator.errors import LedgerUnavailableError, OrchestratorError, UsageError
from orchestrator.installation import missing_package
from orchestrator.ledger.postgres.connect_errors import cannot_connect, is_next_asked
from orchestrator.ledger.postgres.process_mark import connection_name
from orchestrator.ledger.postgres.server_access import arguments
from orchestrator.ledger.postgres.server_checks import check_server
from orchestrator.settings.addresses.ledger_address import LedgerHost, LedgerUrl

Settings = Mapping[str, str]
Driver = Any
"""A connection of the driver's, `asyncpg.Connection`, which has no types."""

OUR_SCHEMA: Final = "to_regnamespace(quote_ident(current_schema()))"
"""That of a connection's ledger, by its number, in SQL. Unquoted, a name with capitals is none, and no lock taken."""

Connect = Callable[[Settings, "LineBounds"], Awaitable[Driver]]
"""Makes one, with these settings of the server's for it; virtual time brings one of its own."""


class LineBounds(NamedTuple):
    """How long anything of a connection is waited for: after that its line counts as cut. A line may be dead without
    anybody being told.
    """

    connected_s: float = 10.0
    """A connection, whichever of its hosts has one for us."""

    answered_s: float = 20.0
    """The answer to one statement of a transaction that writes."""

    found_s: float = 120.0
    """The answer to a question."""

    rewritten_s: float = 6 * 3_600.0
    """The answer to a statement that makes tables, or goes through whole ones."""

    undone_s: float = 5.0
    """The end of a transaction that went wrong."""

    granted_s: float = 0.5
    """What another transaction has locked; then the own one is begun anew."""

    still_s: float = 3.0
    """The next word of a transaction that others wait for; twice as long in the midst of a statement, for what is
    written may be on its way on a slow line.
    """

    guest_still_s: float = 5.0
    """The next word of a guest's transaction, whoever waits: the server ends it then. Those who wait may not, where it
    logs in as another role.
    """

    guest_lasts_s: float = 60.0
    """The end of that transaction, where the server counts it (17 or newer): otherwise it waits for ever for the rest
    of a statement that was begun.
    """


class WayThere(NamedTuple):
    """How a connection leads to its server, as this end of it knows."""

    tls: str | None
    """The version of TLS; None: none."""

    claimed_backend: int
    """The server's process at its other end, as that was told: a pooler tells something else."""


SILENT_S: Final = 10
SIGNS_S: Final = 5
SIGNS_MAX: Final = 3
UNANSWERED_MS: Final = 30_000
"""After `SILENT_S` the other end is asked for a sign of life each `SIGNS_S`. After so many without an answer, or where
what was sent has not arrived for so long, the system closes the connection.
"""

ALWAYS: Final[Settings] = {
    "jit": "off",  # compiling takes longer than any statement of ours
    "synchronous_commit": "on",
    "random_page_cost": "1.1",  # what is looked up lies in memory, or on a disk without heads
    "tcp_keepalives_idle": str(SILENT_S),
    "tcp_keepalives_interval": str(SIGNS_S),
    "tcp_keepalives_count": str(SIGNS_MAX),
    "tcp_user_timeout": str(UNANSWERED_MS),
    # A machine that fell asleep in a transaction must not hold up all the others for longer.
    "idle_in_transaction_session_timeout": "60000",
}


def connecting(url: LedgerUrl, *, named: LedgerUrl | None = None) -> Connect:
    """The ordinary way to connect to the database at `url`, which people call so, or as it is `named`; see
    `process_mark` for how connections are called.

    Raises `UsageError` where the driver is missing. A connection raises `StorageError` where nobody can be reached, and
    for a server to which no ledger can be trusted `UsageError`; or, in a process that has reached one that can be, as
    one that is away.
    """
    try:
        import asyncpg  # noqa: PLC0415  who has no ledger on a server need not have it
    except ImportError:
        raise UsageError(missing_package("postgresql://", "asyncpg", "postgres")) from None
    warnings.filterwarnings("ignore", "password file")  # its own way to say what `disregarded_passwords` is for

    async def connect(settings: Settings, bounds: LineBounds) -> Driver:
        try:
            given = arguments(url, {"application_name": connection_name(), **ALWAYS, **settings})

            async def let_in(host: LedgerHost) -> Driver:
                driver = await asyncpg.connect(
                    host=[host.name],
                    port=[host.port],
                    **given,
                    timeout=bounds.connected_s,
                    command_timeout=bounds.answered_s,
                )
                try:
                    await check_server(driver, named or url, schema=url.schema)
                except BaseException:
                    driver.terminate()
                    raise
                return driver

            return await _let_in_by_one(url, let_in, within_s=bounds.connected_s, named=named or url)
        except UsageError as error:
            if str(url) not in _ANSWERED:
                raise
            raise LedgerUnavailableError(error.message) from error  # after a fail-over a name may lead anywhere

    return connect


async def _let_in_by_one(
    url: LedgerUrl, let_in: Callable[[LedgerHost], Awaitable[Driver]], *, within_s: float, named: LedgerUrl
) -> Driver:
    """A connection to the first host of `url` that has one for us. Each is waited for only so long that as much is left
    for every one behind it: a machine that is gone answers nothing. The one that answered last is asked first.
    """
    until_s, errors = anyio.current_time() + within_s, dict[LedgerHost, Exception]()
    before = _ANSWERED.get(str(url))
    hosts = sorted(url.hosts, key=lambda host: host != before)
    for number, host in enumerate(hosts):
        try:
            with anyio.fail_after((until_s - anyio.current_time()) / (len(hosts) - number)):
                driver = await let_in(host)
        except OrchestratorError:
            raise
        except Exception as error:  # noqa: BLE001  what it raises is as varied as what can be in the way
            errors[host] = error
            if not is_next_asked(error):
                break
        else:
            _ANSWERED[str(url)] = host
            return driver
    raise cannot_connect(named, errors) from errors[host]


_ANSWERED: Final[dict[str, LedgerHost]] = {}
"""The host that let this process in last, by the URLs of ledgers."""


def watch_over(driver: Driver) -> None:
    """Has this system ask for signs of life, as the other one does, where there is a network in between."""
    its = driver._transport.get_extra_info("socket")  # noqa: SLF001  it has no other door to it
    if its.family == socket.AF_UNIX:
        return
    with socket.socket(fileno=os.dup(its.fileno())) as line:  # the loop's own object does not let options be set
        line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _OPTIONS.items():
            if hasattr(socket, name):  # each system has some of them
                line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_OPTIONS: Final = {
    "TCP_KEEPIDLE": SILENT_S,
    "TCP_KEEPINTVL": SIGNS_S,
    "TCP_KEEPCNT": SIGNS_MAX,
    "TCP_USER_TIMEOUT": UNANSWERED_MS,
}


def way_of(driver: Driver) -> WayThere:
    """How `driver` is connected."""
    tls = driver._transport.get_extra_info("ssl_object")  # noqa: SLF001  it has no other door to it
    return WayThere(None if tls is None else tls.version(), driver.get_server_pid())


async def read_sums(driver: Driver) -> None:
    """Sums of whole numbers are read as such: the server makes them `numeric`, which no column is."""
    await driver.set_type_codec(
        "numeric", schema="pg_catalog", encoder=str, decoder=lambda said: float(said) if "." in said else int(said)
    )


def server_driver(connection: AsyncConnection | Connection) -> Driver:
    """The driver's own connection beneath SQLAlchemy's, which knows none any more once it has found that one lost."""
    sync = connection.sync_connection if isinstance(connection, AsyncConnection) else connection
    assert sync is not None
    return sync.connection.driver_connection
