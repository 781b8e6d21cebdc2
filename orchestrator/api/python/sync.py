"""The blocking face, for scripts and notebooks: the same on an event loop of its own, in a thread of its own."""

import queue
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from concurrent.futures import Future
from contextlib import aclosing, suppress
from datetime import datetime
from importlib.util import find_spec
from os import PathLike
from typing import Any, Final, Generic, TypeVar, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from orchestrator.api.flows.apply import Applied
from orchestrator.api.python.flow import Flow
from orchestrator.api.python.inputs import Inputs, check_inputs, check_reading
from orchestrator.api.python.log_console import log
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.api.python.pipeline import Pipeline
from orchestrator.api.python.results import Order, Result
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.keyword_options import (
    OF_SERVICE,
    OF_SUBMIT,
    Endpoints,
    MapOptions,
    ServiceOptions,
    check_known,
)
from orchestrator.errors import StoppedError
from orchestrator.user_code import plainly

PAGES_AHEAD: Final = 2
"""Pages of results that wait for the program's loop."""

LOOK_S: Final = 0.25
"""How often to see whether the program has ended without ending its loop; and how long a wait of its lasts in one go: a
signal that comes just as one begins is noticed when it is over."""

T = TypeVar("T")


def map(  # noqa: A001  what it does to inputs, as of an executor
    endpoint: Endpoints,
    inputs: Inputs,
    *,
    name: str | None = None,
    order: Order = "completion",
    progress: bool = False,
    **options: Unpack[MapOptions],
) -> Iterator[Result]:
    """The results of `inputs` at `endpoint`, each as it ends, or in the order of the input: a blocking generator.

    `endpoint` and `inputs` are as with `Orchestrator.submit`; `options` are its settings of the run, and those of an
    `Orchestrator`. With a `name` the run is that of the ledger which has it: the same call again goes on where it
    stopped, and gives all of its results. Without one the run is a new one each time. `inputs` are iterated in a
    thread. With `progress` a line on standard error shows how the run goes on: in a terminal, in a notebook, in a log.

    Works anywhere, also beside an event loop that runs. Ctrl-C, an exception in the loop or leaving it stops in order,
    as the command does: requests in flight have up to 10 s to end, and a second Ctrl-C leaves at once. Raises like
    `submit` and `Run.results`.

        for result in orchestrator.map("abc123", inputs, name="night"):
            print(result.custom_id, result.output)
    """
    check_known(options, (*OF_SERVICE, *OF_SUBMIT), "map")
    check_inputs(inputs)
    check_reading(inputs, dict(options))
    given: dict[str, Any] = dict(options)
    of_run = {key: value for key, value in given.items() if key in OF_SUBMIT}
    orchestrator = Orchestrator(**{key: value for key, value in given.items() if key in OF_SERVICE})

    def pages(orc: Orchestrator) -> AsyncGenerator[list[Result], None]:
        return orc.pages(endpoint, inputs, name=name, order=order, progress=progress, options=of_run)

    return _passed(_Passing(orchestrator, pages))


def apply(
    pipeline: Pipeline | str | PathLike[str], *, check: bool = False, **options: Unpack[ServiceOptions]
) -> Applied:
    """Records a new version of a pipeline, or only looks at it, as `Orchestrator.apply`; `options` are those of an
    `Orchestrator`.

        orchestrator.apply(pipeline, ledger="nightly.db")
    """
    return _done("apply", options, lambda orc: orc.apply(pipeline, check=check))


def trigger(name: str, at: str | datetime | None = None, **options: Unpack[ServiceOptions]) -> Flow:
    """Asks for a flow, as `Orchestrator.trigger`, and waits until it has ended: `state`, `why` and `counts` tell how.
    Where nobody works on the ledger, this does meanwhile. Raises as `Flow.wait`; the same call again goes on.

        flow = orchestrator.trigger("captions", at="2027-03-27T02:30", ledger="nightly.db")
        print(flow.state, flow.counts["caption"]["succeeded"])
    """

    async def work(orc: Orchestrator) -> Flow:
        flow = await orc.trigger(name, at)
        await flow.wait()
        return flow

    return _done("trigger", options, work)


def backfill(
    name: str,
    from_: str | datetime,
    to: str | datetime,
    *,
    parallel: int = 1,
    again: bool = False,
    **options: Unpack[ServiceOptions],
) -> list[Flow]:
    """Asks for the flows of a past time, as `Orchestrator.backfill`, and waits until all have ended. Raises as
    `Flow.wait`; the same call again goes on.

        for flow in orchestrator.backfill("captions", "2027-03-26", "2027-03-28", ledger="nightly.db"):
            print(flow.name, flow.state)
    """

    async def work(orc: Orchestrator) -> list[Flow]:
        flows = await orc.backfill(name, from_, to, parallel=parallel, again=again)
        for flow in flows:
            await flow.wait()
        return flows

    return _done("backfill", options, work)


def serve(**options: Unpack[ServiceOptions]) -> None:
    """Fires the schedules of the ledger, and serves all of its runs, as `Orchestrator.serve`, until Ctrl-C."""
    _done("serve", options, lambda orc: orc.serve())


def _done(function: str, options: ServiceOptions, work: Callable[[Orchestrator], Awaitable[T]]) -> T:
    """What `work` comes to with an `Orchestrator` of these options."""
    check_known(options, OF_SERVICE, function)

    async def pages(orc: Orchestrator) -> AsyncGenerator[list[T], None]:
        yield [await work(orc)]

    [value] = _passed(_Passing(Orchestrator(**options), pages))
    return value


def _passed(mapping: "_Passing[T]") -> Iterator[T]:
    options = {"use_uvloop": find_spec("uvloop") is not None}
    with start_blocking_portal("asyncio", options, name="orchestrator") as portal:
        serving = portal.start_task_soon(mapping.serve)
        try:
            try:
                while (page := mapping.next(portal)) is not None:
                    yield from page
            except BaseException as error:  # whoever leaves the loop, too
                if isinstance(error, KeyboardInterrupt):
                    log.warning("%s", start_and_stop_texts.STOPPING)
                mapping.end(serving)
                raise
            mapping.end(serving)
        finally:
            mapping.hurry(portal)


class _Passing(Generic[T]):
    """Results on their way from the thread of the event loop to that of the program."""

    def __init__(
        self, orchestrator: Orchestrator, pages: Callable[[Orchestrator], AsyncGenerator[list[T], None]]
    ) -> None:
        self._orchestrator = orchestrator
        self._pages_of = pages
        self._pages: queue.SimpleQueue[list[T] | BaseException | None] = queue.SimpleQueue()
        """Some results, or what has ended them; None: they have come to their end."""

        self._ended = threading.Event()

    # --- in the program's thread

    def next(self, portal: BlockingPortal) -> list[T] | None:
        """The next results; None at their end."""
        while True:
            try:
                page = self._pages.get(timeout=LOOK_S)
                break
            except queue.Empty:
                continue
        if isinstance(page, BaseException):
            raise plainly(page)
        if page is not None:
            with suppress(RuntimeError):  # the loop has ended meanwhile: why comes behind the page
                portal.start_task_soon(self._taken)
        return page

    def end(self, serving: Future[None]) -> None:
        """Ends the event loop's part in order, and waits for that."""
        serving.cancel()
        while not self._ended.wait(LOOK_S):
            continue

    def hurry(self, portal: BlockingPortal) -> None:
        """Where it has not ended, a second Ctrl-C came before that: no request is waited for any more."""
        if not self._ended.is_set():
            portal.start_task_soon(self._hurry)

    # --- in the event loop's

    async def serve(self) -> None:
        """Hands over pages until the end, or until cancelled."""
        self._room = anyio.Semaphore(PAGES_AHEAD)
        end: BaseException | None = StoppedError("the event loop behind this has ended before its time")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_program, group.cancel_scope)
                await self._hand_over()
                group.cancel_scope.cancel()
            end = None
        finally:
            self._pages.put(end)
            self._ended.set()

    async def _hand_over(self) -> None:
        try:
            async with self._orchestrator as orc, aclosing(self._pages_of(orc)) as pages:
                async for page in pages:
                    await self._room.acquire()
                    self._pages.put(page)
        except Exception as error:  # noqa: BLE001  it is raised in the program's thread
            self._pages.put(error)

    async def _watch_program(self, scope: anyio.CancelScope) -> None:
        """A program may end with its loop half done, and then waits for the threads of the ledger: stops them."""
        while threading.main_thread().is_alive():  # noqa: ASYNC110  nobody tells of its end
            await anyio.sleep(LOOK_S)
        scope.cancel()

    async def _taken(self) -> None:
        self._room.release()

    async def _hurry(self) -> None:
        self._orchestrator.hurry()
