"""Works on the flows of a ledger until nothing is left: for a timer's tick, and for whoever waits for one flow."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import msgspec

from orchestrator.api.flows.flow_files import files_of
from orchestrator.api.flows.flows import FlowStatus, flow_named, hand_over, status_of
from orchestrator.api.inspect.standstill import tell_standstills
from orchestrator.api.runs import messages
from orchestrator.api.runs.commands import beside
from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.core.pipelines.flow_lifecycle import ENDED, FlowState
from orchestrator.engine.engine import Engine, open_engine
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.view import Silent, View
from orchestrator.errors import LedgerBusyError, StoppedError, leading
from orchestrator.ledger import Ledger, holder, is_made, no_ledger
from orchestrator.settings.structs import ServeRequest
from orchestrator.units import SECOND_US

LOOK_S: Final = 0.5
"""How often it is looked how a flow stands that another process carries out."""


class Ticked(msgspec.Struct, frozen=True, kw_only=True):
    """What a tick came to."""

    held_by: str | None
    """Who works on the ledger, and looks at the schedules instead; None: this process did."""

    flows: tuple[FlowStatus, ...]
    """What was carried out here, as it stands now."""


async def tick(
    request: ServeRequest,
    view: View | None = None,
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
    _check_made(request.ledger)
    working = WorkingOff(request, view or Silent(), dependencies, stop or anyio.Event())
    began = dependencies.clock.now()
    try:
        with dependencies.lock(request.ledger, now=began, doing="orchestrator tick"):
            with anyio.move_on_after(None if within_us is None else within_us / SECOND_US):
                await working.run(Firing.ONCE, _until_idle)
            return Ticked(held_by=None, flows=await working.since(began))
    except LedgerBusyError:
        async with beside(request.ledger, dependencies) as ledger:
            return Ticked(held_by=await hand_over(ledger), flows=())
    except BaseExceptionGroup as group:
        raise leading(group) from group


async def wait_for_flow(
    request: ServeRequest,
    name: str,
    view: View | None = None,
    dependencies: Dependencies | None = None,
    stop: anyio.Event | None = None,
) -> FlowStatus:
    """The flow called `name` once it has ended, or `stop` is set: where nobody works on the ledger, this process does.

    Raises `UsageError` for an unknown flow, and `StoppedError` where somebody has to do something before it goes on.
    """
    dependencies = dependencies or Dependencies()
    stop = stop or anyio.Event()
    _check_made(request.ledger)
    working = WorkingOff(request, view or Silent(), dependencies, stop)
    while True:
        async with beside(request.ledger, dependencies) as ledger:
            flow = await _followed(ledger, name, stop)
        if flow.state in ENDED or stop.is_set():
            return flow
        if flow.state is FlowState.HELD and not (flow.braked and holder(request.ledger) is None):
            raise StoppedError(f"{flow.name} is held: {flow.why}; go on with: orchestrator continue {flow.name}")
        try:
            with dependencies.lock(request.ledger, now=dependencies.clock.now(), doing=f"orchestrator trigger {name}"):
                await working.run(Firing.ASKED, working.until_ended(flow.name))
        except LedgerBusyError:  # somebody was faster
            continue
        except BaseExceptionGroup as group:
            raise leading(group) from group


async def _followed(ledger: Ledger, name: str, stop: anyio.Event) -> FlowStatus:
    """The flow once it has ended or is held, or nobody works on the ledger."""
    while True:
        flow = await flow_named(ledger, name)
        if flow.state in {*ENDED, FlowState.HELD} or stop.is_set() or holder(ledger.path) is None:
            return status_of(flow, ledger.path)
        with anyio.move_on_after(LOOK_S):
            await stop.wait()


def _check_made(ledger: Path) -> None:
    if not is_made(ledger):
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


class WorkingOff:
    """One process that works on a ledger for its flows, and ends with them."""

    def __init__(self, request: ServeRequest, view: View, dependencies: Dependencies, stop: anyio.Event) -> None:
        self._request = request
        self._view = view
        self._dependencies = dependencies
        self._stop = stop

    async def run(self, firing: Firing, until: Until) -> None:
        """Works, with the ledger's lock held, until that has come."""
        request = self._request
        async with (
            open_engine(request.ledger, request.connection, self._dependencies, self._view) as engine,
            rescuing(engine.ledger),
        ):
            messages.say_opened(self._view, engine.ledger)
            await engine.runs.learn_settings()
            await engine.listen()
            await self._work(engine, firing, until)

    async def _work(self, engine: Engine, firing: Firing, until: Until) -> None:
        engine.stops_when_asked(self._stop)
        async with anyio.create_task_group() as around:
            around.start_soon(self._stop_when_asked, engine)
            async with engine.working():
                messages.say_recovered(self._view, await engine.collect())
                await engine.keep_up()
                engine.taking.start_soon(tell_standstills, engine)
                files = files_of(engine, self._request.connection, self._dependencies, self._view)
                scheduler = await engine.carry_out_flows(files, firing)
                self._view.ready()
                await until(engine, scheduler)
                await scheduler.notifier.until_idle()
                await engine.finish()
            around.cancel_scope.cancel()

    async def _stop_when_asked(self, engine: Engine) -> None:
        await self._stop.wait()
        self._view.say(messages.STOPPING)
        engine.stop()

    @staticmethod
    def until_ended(name: str) -> Until:
        """Until the flow of that name has ended, or is held. Raises `StoppedError` where nothing comes of it."""

        async def until(engine: Engine, scheduler: Scheduler) -> None:
            while True:
                seen = scheduler.changes
                flow = await engine.ledger.flows.named(name)
                if flow is None or flow.state in ENDED or (flow.state is FlowState.HELD and not flow.is_braked):
                    return
                if scheduler.stuck and (scheduler.is_idle or name in {work.flow.name for work in scheduler.stuck}):
                    raise _stopped(scheduler)
                await scheduler.change(seen)

        return until

    async def since(self, began: int) -> tuple[FlowStatus, ...]:
        """The flows that have begun or ended since then, and those that have not ended."""
        async with beside(self._request.ledger, self._dependencies) as ledger:
            latest = await ledger.flows.touched(began)
            return tuple(status_of(flow, ledger.path) for flow in latest)
