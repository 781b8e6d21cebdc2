"""The blocking face, for scripts and notebooks: the same on an event loop of its own, in a thread of its own."""

import queue
import threading
from collections.abc import AsyncGenerator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import aclosing
from importlib.util import find_spec
from typing import Any, Final, Unpack

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal

from orchestrator.api import messages
from orchestrator.api.handle import Order
from orchestrator.api.hosting import log
from orchestrator.api.inputs import Inputs, check
from orchestrator.api.options import OF_RUN, OF_SERVICE, Function, MapOptions, check_known
from orchestrator.api.outcomes import Result
from orchestrator.api.program import Orchestrator

PAGES_AHEAD: Final = 2
"""Pages of results that wait for the program's loop."""

LOOK_S: Final = 0.25
"""How often to see whether the program has ended without ending its loop; and how long a wait of its lasts in one go: a
signal that comes just as one begins is noticed when it is over."""

_Page = list[Result] | BaseException | None
"""Some results, or what has ended them; None: they have come to their end."""


def map(  # noqa: A001  what it does to inputs, as of an executor
    endpoint: str | Function,
    inputs: Inputs,
    *,
    name: str | None = None,
    order: Order = "completion",
    **options: Unpack[MapOptions],
) -> Iterator[Result]:
    """The results of `inputs` at `endpoint`, each as it ends, or in the order of the input: a blocking generator.

    `endpoint` and `inputs` are as with `Orchestrator.submit`; `options` are its settings of the run, and those of an
    `Orchestrator`. With a `name` the run is that of the ledger which has it: the same call again goes on where it
    stopped, and gives all of its results. Without one the run is a new one each time. `inputs` are iterated in a
    thread.

    Works anywhere, also beside an event loop that runs. Ctrl-C, an exception in the loop or leaving it stops in order,
    as the command does: requests in flight have up to 10 s to end, and a second Ctrl-C leaves at once. Raises like
    `submit` and `Run.results`.

        for result in orchestrator.map("abc123", inputs, name="night"):
            print(result.custom_id, result.output)
    """
    check_known(options, (*OF_SERVICE, *OF_RUN), "map")
    check(inputs)
    given: dict[str, Any] = dict(options)
    of_run = {key: value for key, value in given.items() if key in OF_RUN}
    orchestrator = Orchestrator(**{key: value for key, value in given.items() if key in OF_SERVICE})
    return _mapped(_Mapping(orchestrator, endpoint, inputs, name, order, of_run))


def _mapped(mapping: "_Mapping") -> Iterator[Result]:
    options = {"use_uvloop": find_spec("uvloop") is not None}
    with start_blocking_portal("asyncio", options, name="orchestrator") as portal:
        serving = portal.start_task_soon(mapping.serve)
        try:
            try:
                while (page := mapping.next(portal)) is not None:
                    yield from page
            except BaseException as error:  # whoever leaves the loop, too
                if isinstance(error, KeyboardInterrupt):
                    log.warning("%s", messages.STOPPING)
                mapping.end(serving)
                raise
            mapping.end(serving)
        finally:
            mapping.hurry(portal)


class _Mapping:
    """The results on their way from the thread of the event loop to that of the program."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        endpoint: str | Function,
        inputs: Inputs,
        name: str | None,
        order: Order,
        options: Mapping[str, object],
    ) -> None:
        self._orchestrator = orchestrator
        self._endpoint = endpoint
        self._inputs = inputs
        self._name = name
        self._order = order
        self._options = options
        self._pages: queue.SimpleQueue[_Page] = queue.SimpleQueue()
        self._ended = threading.Event()

    # --- in the program's thread

    def next(self, portal: BlockingPortal) -> list[Result] | None:
        """The next results; None at their end."""
        while True:
            try:
                page = self._pages.get(timeout=LOOK_S)
                break
            except queue.Empty:
                continue
        if isinstance(page, BaseException):
            raise page from None
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
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._watch_program, group.cancel_scope)
                await self._hand_over()
                group.cancel_scope.cancel()
        finally:
            self._pages.put(None)
            self._ended.set()

    async def _hand_over(self) -> None:
        try:
            async with self._orchestrator as orc, aclosing(self._results(orc)) as pages:
                async for page in pages:
                    await self._room.acquire()
                    self._pages.put(page)
        except Exception as error:  # noqa: BLE001  it is raised in the program's thread
            self._pages.put(error)

    def _results(self, orc: Orchestrator) -> AsyncGenerator[list[Result], None]:
        return orc.pages(self._endpoint, self._inputs, name=self._name, order=self._order, options=self._options)

    async def _watch_program(self, scope: anyio.CancelScope) -> None:
        """A program may end with its loop half done, and then waits for the threads of the ledger: stops them."""
        while threading.main_thread().is_alive():  # noqa: ASYNC110  nobody tells of its end
            await anyio.sleep(LOOK_S)
        scope.cancel()

    async def _taken(self) -> None:
        self._room.release()

    async def _hurry(self) -> None:
        self._orchestrator.hurry()
