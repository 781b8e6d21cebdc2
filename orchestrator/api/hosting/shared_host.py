"""One of several processes that serve a ledger on a server: joins them, works, and, declared dead, joins them again."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio

from orchestrator.api.hosting.follower import LOOK_S
from orchestrator.api.hosting.host import Alongside, Host
from orchestrator.api.hosting.served_runs_news import ServedRunsNews
from orchestrator.api.hosting.shard_ability import ShardAbility
from orchestrator.api.hosting.shard_news import ShardNews, stands_by_text
from orchestrator.api.hosting.shared_ledger import SharedLedger
from orchestrator.api.inspect.standstill import tell_standstills
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.ledger_rescue import rescuing
from orchestrator.engine.engine import Engine
from orchestrator.engine.flows.scheduler import Firing
from orchestrator.engine.process.engine_process import open_process
from orchestrator.engine.process.stop_watch import StopWatch
from orchestrator.engine.runtime.console import Console, SilentConsole
from orchestrator.errors import DeposedError, LedgerUnavailableError, StorageError, leading
from orchestrator.ledger import sharing_ledger
from orchestrator.ledger.processes.shard_owner import ShardOwner
from orchestrator.settings.addresses.ledger_address import LedgerUrl


async def serve_shared(
    host: Host,
    alongside: Alongside | None = None,
    *,
    takes_pipelines: bool = True,
    at_work: Callable[[SharedLedger | None], None] = lambda _: None,
) -> None:
    """Serves a part of the ledger of `host`, with what is `alongside`, until it is stopped. Schedules and flows are
    none of it unless it `takes_pipelines`. `at_work` is called each time the process has come to be one of those that
    serve the ledger, and listens; and with None once it is none any more.

    Whoever has joined before, or follows a run of its own, joins again however long the ledger cannot be used.

    Raises `LedgerBusyError` where there are too many processes, `DeposedError` where the server lets this one in no
    more, and otherwise as `open_process` does.
    """
    is_patient, is_told = host.run is not None, False
    while not host.stop.is_set():
        has_joined, owner = False, None
        try:
            async with AsyncExitStack() as held:
                owner = await _joined(host, held)
                if owner is not None:
                    async with _sharing(host, owner, alongside, takes_pipelines=takes_pipelines) as shared:
                        is_patient, is_told, has_joined = True, False, True
                        at_work(shared)
                        try:
                            await shared.serve()
                        finally:
                            at_work(None)
        except (StorageError, BaseExceptionGroup) as error:
            match leading(error):
                case DeposedError() as cause if owner is None or not owner.is_refused:
                    host.console.warn(f"{cause} until it has joined again")
                case LedgerUnavailableError() as cause if is_patient and not has_joined:
                    if not is_told:
                        host.console.warn(
                            f"{cause.while_waiting}. It is tried again; until then nothing is served here"
                        )
                    is_told = True
                    with anyio.move_on_after(LOOK_S):
                        await host.stop.wait()
                case _:
                    raise


async def _joined(host: Host, held: AsyncExitStack) -> ShardOwner | None:
    """One of the owners; None where `stop` is set before."""
    assert isinstance(host.path, LedgerUrl)
    owner: ShardOwner | None = None

    def stands_by(holder: str) -> None:
        host.console.info(stands_by_text(holder, host.path))
        host.console.ready()

    async def give_up(waiting: anyio.CancelScope) -> None:
        await host.stop.wait()
        waiting.cancel()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(give_up, tasks.cancel_scope)
        owner = await held.enter_async_context(
            sharing_ledger(
                host.path,
                doing=host.doing,
                stands_by=stands_by,
                connect=host.dependencies.connect_to(host.path),
                here=host.dependencies.here,
                is_for_run=host.run is not None,
            )
        )
        tasks.cancel_scope.cancel()
    return owner


def _console_of_shards(host: Host) -> Console:
    return host.console if host.run is None else SilentConsole()


@asynccontextmanager
async def _sharing(
    host: Host, owner: ShardOwner, alongside: Alongside | None, *, takes_pipelines: bool
) -> AsyncIterator[SharedLedger]:
    """The part of this process in the ledger, which it works on with engines until it is stopped."""
    async with anyio.create_task_group() as around:
        async with (
            open_process(host.path, host.connection, host.dependencies, host.console) as process,
            rescuing(process.ledger),
        ):
            host.attend(process.ledger, around)
            around.start_soon(host.stop_when_asked, process)
            watch = StopWatch(ledger=process.ledger, number=owner.number, stop=host.stop, console=host.console)
            process.watch.subscribers.add(watch.on_change)
            around.start_soon(watch.serve)
            if host.run is not None:
                process.services.own_runs.add(host.run)
            await process.listen()
            await process.begin()
            yield SharedLedger(
                owner=owner,
                process=process,
                ability=ShardAbility(process=process, takes_pipelines=takes_pipelines, only=host.run),
                news=ShardNews(path=host.path, me=owner.number, console=_console_of_shards(host)),
                begin=partial(_begin, host, alongside),
                stop=host.stop,
            )
        around.cancel_scope.cancel()


async def _begin(host: Host, alongside: Alongside | None, engine: Engine) -> None:
    """Begins what the engine of a shard does. Inside of its `working`."""
    if engine.scope.is_keeper:
        recovered, _ = await host.begin(engine, Firing.ALWAYS if host.run is None else Firing.HANDED_OVER)
    else:
        recovered = await engine.collect()
        await engine.keep_up()
    start_and_stop_texts.say_recovered(host.console, recovered)
    taking = engine.groups.taking
    taking.start_soon(tell_standstills, engine)
    taking.start_soon(ServedRunsNews(engine, _console_of_shards(host)).serve)
    if engine.scope.is_keeper and alongside is not None:
        taking.start_soon(alongside, host, engine)
