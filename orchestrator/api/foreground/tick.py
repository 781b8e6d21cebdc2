"""Works on the flows of a ledger until nothing is left: for a timer's tick, and for whoever waits for one flow."""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import msgspec

from orchestrator.api.flows.flows import flow_named, hand_over, status_of
from orchestrator.api.hosting.host import Host, host_of
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.process_commands import beside
from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowState
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import LedgerBusyError, StoppedError, leading
from orchestrator.ledger import Ledger, is_made, no_ledger
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.units import SECOND_US
from orchestrator.views.flows import FlowStatus

LOOK_S: Final = 0.5
"""How often it is looked how a flow stands that another process carries out."""


class Ticked(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick came to."""

    holder: str | None = msgspec.field(name="held_by")
    """Who works on the ledger, and looks at the schedules instead; None: this process did."""

    flows: tuple[FlowStatus, ...]
    """What was carried out here, as it stands now."""


async def tick(
    request: ServeRequest,
    console: Console | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
    *,
    within_us: int | None = None,
) -> Ticked:
    """Looks once at the schedules of a ledger, and works on its flows until nothing is left, for `within_us` at most.
    Where another process works on it, that one looks instead.

    Raises `UsageError` where there is no ledger, and `StoppedError` where flows are left that somebody has to mend.
    """
    dependencies = dependencies or Dependencies()
    await _check_made(request.ledger, dependencies)
    host = host_of(request, console or SilentConsole(), dependencies, stop, doing="orchestrator tick")
    began = dependencies.clock.now()
    try:
        async with host.lock():
            with anyio.move_on_after(None if within_us is None else within_us / SECOND_US):
                await _work(host, Firing.ONCE, _until_idle)
            return Ticked(holder=None, flows=await _flows_since(request.ledger, began, dependencies))
    except LedgerBusyError:
        async with beside(request.ledger, dependencies) as ledger:
            return Ticked(holder=await hand_over(ledger), flows=())
    except BaseExceptionGroup as group:
        raise leading(group) from group


async def wait_for_flow(
    request: ServeRequest,
    name: str,
    console: Console | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> FlowStatus:
    """The flow called `name` once it has ended, or `stop` is set: where nobody works on the ledger, this process does.

    Raises `UsageError` for an unknown flow, and `StoppedError` where somebody has to do something before it goes on.
    """
    dependencies = dependencies or Dependencies()
    stop = stop or anyio.Event()
    await _check_made(request.ledger, dependencies)
    host = host_of(request, console or SilentConsole(), dependencies, stop, doing=f"orchestrator trigger {name}")
    while True:
        async with beside(request.ledger, dependencies) as ledger:
            flow = await _followed(ledger, name, stop)
            held_by = await ledger.holder()
        if flow.state in ENDED or stop.is_set():
            return flow
        if flow.state is FlowState.ON_HOLD and not (flow.braked and held_by is None):
            raise StoppedError(f"{flow.name} is held: {flow.why}; go on with: orchestrator unpause {flow.name}")
        try:
            async with host.lock():
                await _work(host, Firing.ASKED, _until_ended(flow.name))
        except LedgerBusyError:  # somebody was faster
            continue
        except BaseExceptionGroup as group:
            raise leading(group) from group


async def _followed(ledger: Ledger, name: str, stop: anyio.Event) -> FlowStatus:
    """The flow once it has ended or is held, or nobody works on the ledger."""
    while True:
        flow = await flow_named(ledger, name)
        if flow.state in {*ENDED, FlowState.ON_HOLD} or stop.is_set() or await ledger.holder() is None:
            return status_of(flow, ledger.address)
        with anyio.move_on_after(LOOK_S):
            await stop.wait()


async def _check_made(ledger: LedgerAddress, dependencies: Dependencies) -> None:
    if not await is_made(ledger, connect=dependencies.connect_to(ledger)):
        raise no_ledger(ledger)


async def _until_idle(_engine: Engine, scheduler: Scheduler) -> None:
    while True:
        await scheduler.until_idle()
        await scheduler.notifier.until_idle()
        if scheduler.is_idle:
            break
    if scheduler.stuck:
        raise _stopped(scheduler)


def _stopped(scheduler: Scheduler) -> StoppedError:
    why = "; ".join(f"{work.flow.name}: {work.why_stuck}" for work in scheduler.stuck)
    return StoppedError(f"nothing comes of these flows before somebody does something: {why}")


Until = Callable[[Engine, Scheduler], Awaitable[None]]


async def _work(host: Host, firing: Firing, until: Until) -> None:
    """Works on the flows, with the ledger's lock held, until that has come."""
    async with host.opened() as engine, host.working(engine):
        recovered, scheduler = await host.begin(engine, firing)
        start_and_stop_texts.say_recovered(host.console, recovered)
        host.ready(engine)
        await until(engine, scheduler)
        await scheduler.notifier.until_idle()
        await engine.finish()


def _until_ended(name: str) -> Until:
    """Until the flow of that name has ended, or is held. Raises `StoppedError` where nothing comes of it."""

    async def until(engine: Engine, scheduler: Scheduler) -> None:
        while True:
            seen = scheduler.changes
            flow = await engine.ledger.flows.named(name)
            if flow is None or flow.state in ENDED or (flow.state is FlowState.ON_HOLD and not flow.is_braked):
                return
            if scheduler.stuck and (scheduler.is_idle or name in {work.flow.name for work in scheduler.stuck}):
                raise _stopped(scheduler)
            await scheduler.change(seen)

    return until


async def _flows_since(ledger: LedgerAddress, began: int, dependencies: Dependencies) -> tuple[FlowStatus, ...]:
    """The flows that have begun or ended since then, by this machine's clock, and those that have not ended."""
    async with beside(ledger, dependencies) as opened:
        since = opened.now() - (dependencies.clock.now() - began)
        return tuple(status_of(flow, ledger) for flow in await opened.flows.touched(since))
