"""What keeps a ledger and what is at the services in order, beside the work."""

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio

from orchestrator.core.ownership.lease import SETTLED_US_MIN
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.hosting.stuck_jobs import StuckJobs
from orchestrator.engine.hosting.worker_scaling import LOOK_EVERY_S
from orchestrator.engine.maintenance.canceller import Canceller
from orchestrator.engine.maintenance.janitor import Duty, Janitor
from orchestrator.engine.maintenance.pruning import Pruner
from orchestrator.engine.maintenance.reconciler import Reconciler
from orchestrator.engine.maintenance.sampler import Sampler
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.engine.runtime.poll_intervals import LOOK_S
from orchestrator.engine.runtime.subscribers import StepSubscribers
from orchestrator.ledger.runs.heartbeats import ProcessReport

RECONCILE_EVERY_S: Final = 30.0
"""Between two comparisons of the ledger with what is done, looks for stuck jobs, and trials of unservable runs."""

PRUNE_EVERY_S: Final = 3_600.0
"""How often old events are looked for."""

CLEAR_EVERY_S: Final = 60.0
"""How often it is looked for what processes have begun to take in and left, where others than this one take in."""

CANCELS_S_MAX: Final = 30.0
"""How long an engine whose runs are over may take to cancel what is one too many; the rest is owed until the next."""


class Maintenance:
    """Of one engine: who cancels, and the janitor with what has to be done now and then."""

    def __init__(
        self,
        process: EngineProcess,
        host: RunHost,
        steps: StepSubscribers,
        *,
        said: Callable[[], ProcessReport],
        speaks: Callable[[], bool],
    ) -> None:
        """`said` is what the engine says of itself; it speaks for its process, too, while `speaks`."""
        ledger, dependencies, console = process.ledger, process.dependencies, process.console
        endpoints = host.endpoints
        served, settings_of = endpoints.endpoints, endpoints.settings_of
        self._console = console
        self.sampler = Sampler(
            ledger=ledger,
            runs=host.runs,
            endpoints=endpoints,
            process=process.meter,
            speaks=speaks,
            report=said,
            every_s=dependencies.sample_every_s,
        )
        self.canceller = Canceller(ledger, endpoints.served, endpoints.owed)
        self.stuck = StuckJobs(ledger=ledger, endpoints=served, warn=console.warn, owed=endpoints.owed)
        self.reconciler = Reconciler(ledger=ledger, endpoints=served)
        self.pruner = Pruner(ledger=ledger, clock=dependencies.clock)
        duties = [
            Duty("keep what was learned", LOOK_S, endpoints.write_down),
            Duty("keep how the brakes stand", LOOK_S, host.runs.brakes.write_down),
            Duty("reconcile", RECONCILE_EVERY_S, self.reconciler.run_once),
            Duty("look for stuck jobs", RECONCILE_EVERY_S, self.stuck.run_once),
            Duty("put workers back", LOOK_EVERY_S, host.workers.look),
            Duty("look after pods", LOOK_EVERY_S, host.pods.look),
            Duty("serve what was held", RECONCILE_EVERY_S, host.retry_unservable),
            Duty("sample", dependencies.sample_every_s, self.sampler.run_once),
        ]
        if endpoints.scope.is_keeper:
            duties.append(Duty("prune", PRUNE_EVERY_S, self.pruner.run_once))
        if endpoints.scope.is_keeper and not endpoints.scope.is_everything:
            hold = dependencies.holding_intakes(ledger.address)
            duties.append(Duty("clear dead intakes", CLEAR_EVERY_S, partial(ledger.runs.intakes.clear_dead, hold)))
        self.janitor = Janitor(
            ledger,
            served,
            settings_of,
            duties,
            settled_after_us=SETTLED_US_MIN if endpoints.scope.is_successor else 0,
        )
        for on_steps in (self.sampler.steps.on_steps, self.canceller.on_steps, self.janitor.on_steps):
            steps.add(on_steps)

    async def finish(self, inbox: WebhookInbox) -> None:
        """Takes up what was noted last in `inbox` and cancels what is one too many, for a while."""
        with anyio.move_on_after(CANCELS_S_MAX):
            await inbox.catch_up()
            if await self.canceller.owes():
                self._console.info(f"cancelling what is one too many at the service, for {CANCELS_S_MAX:.0f} s at most")
            await self.canceller.finish()
