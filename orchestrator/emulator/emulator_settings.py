"""What the emulated service is like, also where only a Python program can say it: its handlers, callers and limits."""

from collections.abc import Container, Mapping

import msgspec
from starlette.types import ASGIApp

from orchestrator.emulator.account.pods import PodSettings
from orchestrator.emulator.account.templates import TEMPLATE_RELEASE_S
from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.emulator.contract.callers import Caller
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.contract.limits import CONTRACT_LIMITS, JobOperation, OperationLimit
from orchestrator.emulator.emulator_flags import EmulatorOptions
from orchestrator.emulator.job_api.routes import STREAM_WAIT_MS_DEFAULT
from orchestrator.emulator.job_api.webhook_delivery import CONTRACT_SUCCESS
from orchestrator.emulator.job_api.worker_routes import HOLD_S
from orchestrator.emulator.jobs.scaling_rules import Scaling
from orchestrator.emulator.workers.handlers import Handler
from orchestrator.emulator.workers.worker_processes import LISTEN_GRACE_S
from orchestrator.units import MIB


class EmulatorSettings(EmulatorOptions, frozen=True, kw_only=True):
    """What the emulated service is like. The defaults are the contract's."""

    endpoints: Mapping[str, Handler] = {}
    """The handler of each endpoint id; `"*"` is every id that is not named."""
    http_endpoints: Mapping[str, ASGIApp] = {}
    """The HTTP server that the workers of a load balancing endpoint run, by its id; `"*"` is for those that are created
    and not named."""
    pod_servers: Mapping[int, ASGIApp] = {}
    """The HTTP server that listens in every pod at a port, behind the service's proxy."""
    command: tuple[str, ...] | None = None
    """A program that runs the official worker, for every id that has no handler: `("python", "handler.py")`."""
    any_endpoint: bool = False
    """Every endpoint id exists, even without a handler or a command: workers come from elsewhere."""
    workers: int = 4
    """Workers per endpoint; each runs one job at a time."""
    scaling: Scaling | None = None
    """How endpoints scale; None has the same number of `workers` at all times."""
    ping_interval_s: float = 10.0
    """How often worker processes are told to ping, in real seconds; the official worker knows whole ones."""
    silence_s: float = 40.0
    """A worker process that has not named a job of its in a ping for so long has lost it (as observed)."""
    take_hold_s: float = HOLD_S
    """How long a worker that waits for a job or a stop is held, in real seconds."""
    listen_grace_s: float = LISTEN_GRACE_S
    """How long a worker process may take to hear that it is to stop a job, in real seconds, before it is killed."""
    repeated_done_status: int = 200
    """The answer to a result for a job that has ended already."""
    keys: tuple[str, ...] | None = None
    """The API keys that are taken; None takes any but an empty one."""
    limits: Mapping[JobOperation, OperationLimit] = CONTRACT_LIMITS
    """An operation without an entry is unlimited."""
    pods: PodSettings = PodSettings()
    without: Mapping[str, int] = {}
    """Interfaces of the account that there are not, or no longer, and the status that they answer with."""
    faults: Faults = Faults()
    batch: BatchRules = BatchRules()
    """What the service's own Batch is like."""
    sync_retention_s: float = 60.0
    """The same for a job of `/runsync`."""
    stream_wait_ms: int = STREAM_WAIT_MS_DEFAULT
    """How long an empty `/stream` is held unless `wait` says so."""
    body_bytes_max: int = 10 * MIB
    """The longest body of a `/run` (as observed); longer ones are answered 413."""
    webhook_delays_s: tuple[float, ...] = (10.0, 10.0)
    """The pauses before the second attempt, the third, ... (contract, Events)."""
    webhook_success: Container[int] = CONTRACT_SUCCESS
    """With which statuses a receiver takes a webhook."""
    webhook_timeout_s: float = 10.0
    webhook_concurrency: int = 256
    template_release_s: float = TEMPLATE_RELEASE_S
    """How long after its last use a template cannot be deleted (contract: up to 2 minutes)."""
    gpus: tuple[str, ...] | None = None
    """The GPU types that are available; None for all."""

    @property
    def pods_as_served(self) -> PodSettings:
        """How pods behave, with what holds for all that there is."""
        return msgspec.structs.replace(
            self.pods,
            page_max=min(self.pods.page_max, self.page_size),
            strict=self.pods.strict or self.strict,
        )


def callers_of(settings: EmulatorSettings) -> Mapping[str, Caller] | None:
    """Whom each key stands for that is taken, the first of which is for workers; None: any key will do.

    One that is named without a caller is a user's with all permissions.
    """
    return {**dict.fromkeys(settings.keys or (), Caller()), **(settings.pods.callers or {})} or None
