"""What the program takes from outside of itself; a simulation or a test brings its own."""

import os
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, Self

import msgspec
from anyio.abc import TaskStatus
from starlette.types import ASGIApp

from orchestrator.client.http.open_files import open_files_allowed
from orchestrator.clock import Clock, SystemClock
from orchestrator.core.service.addresses import Address
from orchestrator.core.service.profiles import address_of
from orchestrator.core.text.next_step import Wording
from orchestrator.engine.ports.account_endpoints import AccountEndpoints, MakeAccountEndpoints
from orchestrator.engine.ports.account_pods import AccountPods, MakeAccountPods
from orchestrator.engine.runtime.poll_intervals import ASK_EVERY_S, LOOK_S, SAMPLE_EVERY_S
from orchestrator.engine.runtime.process_usage import ProcessUsage, own_usage
from orchestrator.engine.user_code.functions import PerformsTasks
from orchestrator.engine.user_code.process import user_code
from orchestrator.ledger import Boot, IntakeRight, holding_intake, holding_ledger, this_boot
from orchestrator.ledger.actions.asker import BY_COMMAND, Asker
from orchestrator.ledger.holder_text import machine_name
from orchestrator.ledger.runs.intakes import Hold
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import command
from orchestrator.settings.connection_settings import ConnectionSettings

if TYPE_CHECKING:
    from orchestrator.client import Service
    from orchestrator.client.http.link_fetcher import FetchLink
    from orchestrator.client.http.posts import PostNotification
    from orchestrator.client.notify.delivery import Delivery, Outgoing
    from orchestrator.client.notify.mail import MailRoute, SendMail
    from orchestrator.core.service.http_answers import Answer
    from orchestrator.ledger.processes.this_process import ThisProcess
    from orchestrator.ledger.sites.sites import AnyConnect

MakeService = Callable[[ConnectionSettings, Clock], "Service"]


class HoldLedger(Protocol):
    """Makes sure that nobody else works on a ledger while the block runs; see `holding_ledger`."""

    def __call__(self, ledger: LedgerAddress, /, *, now: int, doing: str = ...) -> AbstractAsyncContextManager[None]:
        """The block's context."""
        ...


class HoldIntake(Protocol):
    """Makes sure that nobody else takes in for a run of a ledger while the block runs; see `holding_intake`."""

    def __call__(self, ledger: LedgerAddress, run: str, /, *, now: int) -> AbstractAsyncContextManager[IntakeRight]:
        """The block's context."""
        ...


class Listening(Protocol):
    """A server that takes webhooks; `web.server.Listener` over the network."""

    @property
    def url(self) -> str:
        """Its base URL."""
        ...

    async def serve(self, *, task_status: TaskStatus[None]) -> None:
        """Serves until cancelled."""
        ...


def real_service(connection: ConnectionSettings, clock: Clock) -> "Service":
    """The service over the network; what people send by hand beside the run has its part of the limits."""
    from orchestrator.client import Service, for_a_batch  # noqa: PLC0415  who shows pages asks no service

    limits = for_a_batch(connection.limits)
    url = address_of(connection.serverless_url)
    service = Service(url, connection.api_key, clock, limits=limits, pacing=connection.pacing)
    service.endpoint_headers = connection.headers
    return service


def real_account(service: "Service", rest_url: str) -> AccountEndpoints:
    """The endpoints of the account whose key `service` has. Raises `UsageError` for a bad URL."""
    from orchestrator.account.run_endpoints import RunEndpoints  # noqa: PLC0415  most runs need no account

    return RunEndpoints(service, rest_url)


def real_pods(service: "Service", rest_url: str) -> AccountPods:
    """The pods of the account whose key `service` has. Raises `UsageError` for a bad URL, and without a key."""
    from orchestrator.account.run_pods import RunPods  # noqa: PLC0415  most runs have no pods

    return RunPods(service, rest_url)


def real_listener(application: ASGIApp, address: Address, /) -> Listening:
    """A server on `address`, bound at once. Raises `UsageError` where that cannot be."""
    from orchestrator.web.server import Listener  # noqa: PLC0415  a run without a listener needs no web server

    return Listener(application, address)


async def real_post(url: str, headers: Mapping[str, str], body: bytes, clock: Clock, /) -> "Answer":
    """What a receiver of messages answers over the network; see `post_notification`."""
    from orchestrator.client.http.posts import post_notification  # noqa: PLC0415  most processes tell nobody

    return await post_notification(url, headers, body, clock)


async def real_mail(route: "MailRoute", message: "Outgoing", at: int, /) -> "Delivery":
    """What came of a mail over the network; see `client.notify.mail.send_mail`."""
    from orchestrator.client.notify.mail import send_mail  # noqa: PLC0415  most processes tell nobody

    return await send_mail(route, message, at)


def real_link(url: str, /, *, networks: Sequence[str], bytes_max: int, pages: bool) -> AsyncGenerator[bytes, None]:
    """What a link of an output leads to over the network; see `client.http.link_fetcher.fetched_link`."""
    from orchestrator.client.http.link_fetcher import fetched_link  # noqa: PLC0415  most outputs have no links

    return fetched_link(url, networks=networks, bytes_max=bytes_max, pages=pages)


def is_folder(path: str) -> bool:
    """Whether it is on this machine, and may be looked into: somebody's home may be closed to others."""
    return os.path.isdir(path)  # noqa: PTH112  `Path.is_dir` raises for what may not be looked into


class Dependencies(msgspec.Struct, frozen=True, kw_only=True):
    """Clock, environment variables, and the ways out to service and database, and in from the network."""

    clock: Clock = msgspec.field(default_factory=SystemClock)
    environ: Mapping[str, str] = msgspec.field(default_factory=lambda: os.environ)
    service: MakeService = real_service
    account: MakeAccountEndpoints = real_account
    pods: MakeAccountPods = real_pods
    connect: "Callable[[Any], AnyConnect] | None" = None
    """Makes the database's way to connect for a path; None: the ordinary one."""

    lock: HoldLedger = holding_ledger
    intake_lock: HoldIntake = holding_intake
    here: "ThisProcess | None" = None
    """The process that works on ledgers on servers, which `lock` holds; None: the one in which this runs."""

    machine: Callable[[], str] = machine_name
    """What the machine is called whose files are read and written here."""

    boot: Boot = this_boot
    open_files: Callable[[], int] = open_files_allowed
    """How many files the process may have open, raised as far as the system allows."""

    listener: Callable[[ASGIApp, Address], Listening] = real_listener

    post_hook: "PostNotification" = real_post

    fetch_link: "FetchLink" = real_link

    send_mail: "SendMail" = real_mail

    word: Wording = command
    """How the steps are worded that messages suggest: as commands of the command line."""

    asked: Asker = BY_COMMAND
    """Who asks for what is asked of the ledger, and by which way."""

    is_folder: Callable[[str], bool] = is_folder
    """Whether the folder of a pipeline is on this machine."""

    user_code: Callable[[], PerformsTasks] = user_code
    """Makes what calls people's steps and checks."""

    say_every_s: float = LOOK_S
    """How often to see whether there is something else to say of this process, for those who look from outside."""

    usage: Callable[[], ProcessUsage] = own_usage
    sample_every_s: float = SAMPLE_EVERY_S
    """How often how all stands is written down for charts and metrics."""

    watch_every_s: float = ASK_EVERY_S
    """How often to ask whether another process has changed the ledger."""

    def with_clock(self, clock: Clock) -> Self:
        """The same with this clock: who works on a ledger has one time, the ledger's."""
        return msgspec.structs.replace(self, clock=clock)

    def connect_to(self, ledger: LedgerAddress) -> "AnyConnect | None":
        """How the database of that ledger is connected to; None: the ordinary way."""
        return None if self.connect is None else self.connect(ledger)

    def holding_intakes(self, ledger: LedgerAddress) -> Hold:
        """Holds, by the name of a run of the ledger at `ledger`, the right to take in for it."""

        def hold(run: str) -> AbstractAsyncContextManager[IntakeRight]:
            return self.intake_lock(ledger, run, now=self.clock.now())

        return hold
