"""`orchestrator emulate`: the emulator on a port, until it is stopped, as it was asked for."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, cast

import anyio

from orchestrator.api.emulation import emulate_request
from orchestrator.api.emulation.child_environment import command_of, run_command, write_environment
from orchestrator.api.emulation.emulate_request import EmulateRequest
from orchestrator.client import Deliverer
from orchestrator.clock import SystemClock
from orchestrator.core.service.addresses import PORT_MAX
from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.account_api.callers_file import read_accounts
from orchestrator.emulator.account_api.retired_interfaces import INTERFACES
from orchestrator.emulator.contract.faults_file import read_faults
from orchestrator.emulator.emulator_flags import EmulatorOptions
from orchestrator.emulator.emulator_settings import EmulatorSettings
from orchestrator.emulator.http.gate import ANY_ENDPOINT
from orchestrator.emulator.job_api.http_servers import Application
from orchestrator.emulator.job_api.webhook_delivery import CONTRACT_SUCCESS
from orchestrator.emulator.serving import serve_emulator
from orchestrator.emulator.workers.handlers import Handler, load_handler
from orchestrator.errors import UsageError
from orchestrator.settings.setting import Setting

STDERR = 2
"""Where worker processes write: standard output is for data."""


ENDPOINT_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
"""What a client takes for an endpoint's id; nobody could ask for another."""

CONTRACT_WEBHOOK_DELAYS_S = (10.0, 10.0)
OBSERVED_WEBHOOK_DELAYS_S = (5.0, 15.0)
OBSERVED_SUCCESS = range(200, 300)
"""The gaps that were seen at the service, and the statuses that it took, unlike those of the contract."""


async def emulate(
    request: EmulateRequest, ready: Callable[[Mapping[str, str], Mapping[str, str]], None], stop: anyio.Event
) -> int:
    """Serves an emulated service until `stop` is set, or the command that is run has ended: its exit code, else 0.

    `ready` gets its URLs by name and the environment that points clients at it, once requests are taken. Raises
    `UsageError` for whatever cannot be emulated as asked.
    """
    settings = emulator_settings(request)
    command = None if request.run is None else command_of(emulate_request.RUN, request.run)
    code = 0
    clock = SystemClock()
    deliverer = Deliverer(clock)
    async with serve_emulator(
        settings,
        host=request.host,
        port=request.port,
        seed=request.seed,
        clock=clock,
        deliver=deliverer.deliver,
        worker_output=STDERR,
    ) as service:
        environment = service.environment()
        if request.env_file is not None:
            write_environment(request.env_file, environment)
        ready(service.urls, environment)
        if command is None:
            await stop.wait()
        else:
            code = await run_command(command, environment, stop)
    await deliverer.aclose()
    return code


def emulator_settings(request: EmulateRequest) -> EmulatorSettings:
    """The settings that a request asks for. Raises `UsageError`."""
    handlers = _handlers(request)
    command = None if request.worker is None else _command(request.worker)
    if command is not None and ANY_ENDPOINT in handlers:
        raise UsageError(
            f"{emulate_request.HANDLER} and {emulate_request.WORKER} exclude each other:"
            " both would serve every endpoint"
        )
    if request.time_scale <= 0:
        raise UsageError(f"{emulate_request.TIME_SCALE} must be positive, not {request.time_scale}")
    accounts = read_accounts(request.accounts_file, request.quotas)
    options = {name: getattr(request, name) for name in EmulatorOptions.__struct_fields__}
    return EmulatorSettings(
        **options,
        endpoints=handlers,
        http_endpoints=_applications(request),
        pod_servers=_pod_servers(request),
        command=command,
        scaling=request.scaling,
        batch=request.batch.rules(),
        keys=request.keys or None,
        pods=PodSettings(
            callers=accounts.callers,
            quotas=accounts.quotas,
            capacity=accounts.capacity if request.capacity is None else request.capacity,
            balance=accounts.balance and not request.no_balance,
        ),
        template_release_s=(
            accounts.template_release_s if request.template_release_s is None else request.template_release_s
        ),
        faults=read_faults(request.faults_file, request.faults),
        webhook_delays_s=OBSERVED_WEBHOOK_DELAYS_S if request.webhooks_as_observed else CONTRACT_WEBHOOK_DELAYS_S,
        webhook_success=OBSERVED_SUCCESS if request.webhooks_as_observed else CONTRACT_SUCCESS,
        without=_without(request.without),
    )


def _without(given: Sequence[str]) -> dict[str, int]:
    """The status of each interface that there is not."""
    found: dict[str, int] = {}
    for text in given:
        name, _, status = text.partition("=")
        if name not in INTERFACES or status not in ("", "404", "410"):
            raise UsageError(
                f"{emulate_request.WITHOUT} {text}: write it as INTERFACE or INTERFACE=STATUS, with an interface of"
                f" {', '.join(INTERFACES)} and a status of 404 or 410"
            )
        found[name] = int(status or 404)
    return found


def _handlers(request: EmulateRequest) -> dict[str, Handler]:
    handlers = {} if request.handler is None else {ANY_ENDPOINT: load_handler(request.handler)}
    for name, reference in _named(emulate_request.ENDPOINTS, "FILE.py:FUNCTION", request.endpoints):
        handlers[name] = load_handler(reference)
    return handlers


def _applications(request: EmulateRequest) -> dict[str, Application]:
    """What the workers of load balancing endpoints run."""
    given = tuple(_named(emulate_request.HTTP_ENDPOINTS, "FILE.py:APP", request.http_endpoints, or_any=True))
    queued = {name for name, _ in _named(emulate_request.ENDPOINTS, "FILE.py:FUNCTION", request.endpoints)}
    if both := queued & {name for name, _ in given}:
        raise UsageError(
            f"{emulate_request.ENDPOINTS} and {emulate_request.HTTP_ENDPOINTS} both name {min(both)}:"
            " an endpoint has a queue, or none"
        )
    return {name: cast("Application", load_handler(reference, "application")) for name, reference in given}


def _pod_servers(request: EmulateRequest) -> dict[int, Application]:
    """What listens in each pod, by port."""
    found = {}
    for port, reference in _named(emulate_request.POD_SERVERS, "FILE.py:APP", request.pod_servers):
        if not port.isdecimal() or not 1 <= int(port) <= PORT_MAX:
            raise UsageError(f"{emulate_request.POD_SERVERS} {port}: the name is a port, from 1 to {PORT_MAX}")
        found[int(port)] = cast("Application", load_handler(reference, "application"))
    return found


def _named(
    setting: Setting[Any], form: str, given: Sequence[str], *, or_any: bool = False
) -> Iterator[tuple[str, str]]:
    """The names and references in `NAME=FILE.py:…`. Raises UsageError for one that is not of that form."""
    for text in given:
        name, equals, reference = text.partition("=")
        if not equals or not (ENDPOINT_NAME.fullmatch(name) or (or_any and name == ANY_ENDPOINT)):
            raise UsageError(
                f"{setting} {text}: write it as NAME={form}; a name is 1-128 letters, digits, '-' and '_'"
                + (", or *" if or_any else "")
            )
        yield name, reference


def _command(text: str) -> tuple[str, ...]:
    """The command of `--worker`; a bare `python` is this program's own where the official worker is installed there."""
    return command_of(emulate_request.WORKER, text, None if find_spec("runpod") is None else sys.executable)
