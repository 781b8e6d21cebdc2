"""Virtual time: an asyncio event loop that never sleeps but moves its clock to the next timer.

- The loop's time starts at `start_s` and advances only when nothing is ready to run, and then exactly to the next
  timer. An hour of `anyio.sleep` costs microseconds, and the order of events depends on nothing but the program.
- Nothing ready and no timer: nobody will ever wake anybody. That is reported as `DeadlockError`, with every task
  and the place where it waits. A timer at infinity (`anyio.sleep_forever`) is no timer.
- A program that is busy without a pause is charged for it, else a task that spins until something is done would wait
  for ever. AnyIO spins whenever a cancelled task goes on waiting, as SQLAlchemy's closing of a connection does.
- There is no network here. Sockets that happen to be ready are served, but the clock does not wait for them, unless
  it `stands_still_for` what they answer: a real database.
- Threads are discouraged, since their order is not ours, but they work: while a thread of `anyio.to_thread` or of
  `run_in_executor` runs, virtual time stands still and the loop really waits for it, at most `THREAD_WAIT_S_MAX`.
  A thread that itself waits for the loop's clock (`anyio.from_thread.run(anyio.sleep, 1)`) therefore ends in an error.
- `crash()` kills the loop for good: see there. What runs with the same `PART` is one part of the world, such as a
  process: `suspend()` lets a part stand still until `resume()`, and `kill()` ends it, while the others go on.
"""

import asyncio
import ctypes
import heapq
import itertools
import math
import random
import selectors
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from contextvars import Context, ContextVar
from typing import Any, Protocol, TypeVar, TypeVarTuple

from anyio import lowlevel
from anyio._backends import _asyncio as anyio_asyncio

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

THREAD_WAIT_S_MAX = 30.0
"""Real seconds that one thread may keep the world waiting."""

LOOK_S, LOOK_S_MAX = 0.01, 0.25
"""After so many real seconds somebody looks why nothing comes, and again after twice as many."""

ROUNDS_FREE = 1_000
"""Rounds of callbacks in a row that cost no virtual time."""

ROUND_S = 0.000_1
"""Virtual seconds that each further round costs until the loop is idle again."""

ROUNDS_MAX = 1_000_000
"""Rounds in a row that are taken for a program running in circles."""

_Ready = list[tuple[selectors.SelectorKey, int]]

PART: ContextVar[object] = ContextVar("PART", default=None)
"""To which part of the world it belongs what runs; None: to what nobody suspends or kills."""


class DeadlockError(Exception):
    """The world cannot go on: nothing is ready and no timer is set, or it runs in circles, or a thread is stuck."""


class LoopCrashed(BaseException):
    """The loop was killed by `crash()`. Not an `Exception`: it is raised past the program, never through it."""


class Perishable(Protocol):
    """Something of this process that a crash takes away, such as a database connection."""

    def abandon(self) -> None:
        """Let go of what the operating system would take back from a killed process; run nothing of the program."""


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop on virtual time.

    Args:
        seed: of `random`, the generator for whatever chance the world needs.
        start_s: the loop's time to begin with; a world that follows a crashed one starts where that one ended.
    """

    def __init__(self, *, seed: int = 0, start_s: float = 0.0) -> None:
        self.random = random.Random(seed)
        self._perishables: weakref.WeakKeyDictionary[Perishable, object] = weakref.WeakKeyDictionary()
        self.crashed_at_s: float | None = None
        self.task_numbers = itertools.count(1)
        self._now_s = start_s
        self._futures_of_threads = 0
        self._rounds = 0
        self._suspended: dict[object, _Aside] = {}
        self._dead: set[object] = set()
        self._has_died = False
        self.look: Callable[[], None] | None = None
        """Called while a thread, or a real server, says nothing; whoever is not to be waited for any more is named then."""

        super().__init__(_VirtualSelector(self._turn))
        self.set_task_factory(_numbered_task)

    def time(self) -> float:
        """Virtual seconds; stands still while callbacks run."""
        return self._now_s

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As in asyncio, but a timer at infinity is never scheduled: it would hide a deadlock."""
        if when == math.inf:
            return asyncio.TimerHandle(when, callback, args, self, context)
        return super().call_at(when, callback, *args, context=context)

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """As in asyncio; virtual time stands still until the future is done."""
        return self.stands_still_for(super().run_in_executor(executor, func, *args))

    def stands_still_for(self, future: asyncio.Future[T]) -> asyncio.Future[T]:
        """`future`, until which virtual time stands still: it is the answer of a thread, or of a real server."""
        self._futures_of_threads += 1
        future.add_done_callback(self._thread_ended)
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        """As in asyncio, where this is one more thread."""
        self._futures_of_threads += 1
        try:
            await super().shutdown_default_executor(*args, **kwargs)
        finally:
            self._futures_of_threads -= 1

    def stand_still(self, seconds: float) -> None:
        """Let `seconds` pass in which nothing runs, as in a process that got SIGSTOP, or on a machine that is asleep.

        What fell due goes off in the next round; whatever came meanwhile is found only after that.
        """
        self._now_s += seconds

    def crash(self) -> None:
        """Stop dead, as `kill -9` does: no other step, callback, `finally` or shielded clean-up runs after this one.

        The caller's own step runs on to its next `await`, which never returns. Whoever runs the loop gets
        `LoopCrashed`. Afterwards the loop can only be closed, which takes the perishables away.

        A coroutine that Python destroys has its `finally` blocks run, and the program is full of those. So the tasks
        of a crashed loop are made immortal: whatever they refer to stays in memory until the process ends, unseen by
        the garbage collector. Callers that crash thousands of worlds should keep them small.
        """
        self.crashed_at_s = self._now_s
        self._bury_tasks()
        for handle in self._ready:  # type: ignore[attr-defined]  # asyncio's own queue, which has no other door
            handle._cancelled = True  # not cancel(): that would release what the handle refers to

    def perishes(self, perishable: Perishable) -> None:
        """A crash takes `perishable` away, and so does a kill of the part that runs now."""
        self._perishables[perishable] = PART.get()

    def outlives(self, perishable: Perishable) -> None:
        """There is nothing left of it to take away."""
        self._perishables.pop(perishable, None)

    def kill(self, part: object) -> None:
        """End a part of the world, as `kill -9` ends a process; everything else goes on.

        As with `crash`, nothing of it runs after its step of now, and whoever waits for it waits for ever: a world in
        which somebody was killed can only end by a crash.
        """
        self._dead.add(part)
        self._has_died = True
        for task in asyncio.all_tasks(self):
            if isinstance(task, _NumberedTask) and task.part is part:
                _immortalize(task)
        _immortalize(self._suspended.pop(part, None))
        for handle in self._ready:  # type: ignore[attr-defined]  # asyncio's own queue, which has no other door
            if _part_of(handle) is part:
                _immortalize(handle)
                handle._cancelled = True  # not cancel(): that would release what the handle refers to
        for perishable, owner in tuple(self._perishables.items()):
            if owner is part:
                self.outlives(perishable)
                perishable.abandon()

    def suspend(self, part: object) -> bool:
        """Let a part stand still, as SIGSTOP does with a process; False where it does already.

        What the rest of the world does for it meanwhile (answers that arrive) waits for it.
        """
        if part in self._suspended:
            return False
        self._suspended[part] = _Aside(timers=self._timers_of(part))
        return True

    def resume(self, part: object) -> None:
        """Let it go on, with the timers that have run out meanwhile, and then with what it finds at its sockets: that is
        the order of uvloop, and the worse one. Of one that was killed meanwhile nothing goes on.
        """
        aside = self._suspended.pop(part, None)
        if aside is None:
            return
        run_out = [timer for timer in aside.timers if timer.when() <= self._now_s]
        for timer in sorted(run_out, key=asyncio.TimerHandle.when):
            timer._scheduled = False  # type: ignore[attr-defined]  # as when asyncio takes it from its heap
            self._ready.append(timer)  # type: ignore[attr-defined]
        self._ready.extend(aside.handles)  # type: ignore[attr-defined]
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        timers += [timer for timer in aside.timers if timer.when() > self._now_s]
        heapq.heapify(timers)

    def _timers_of(self, part: object) -> list[asyncio.TimerHandle]:
        """Takes the timers of a part away."""
        timers: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        found = [timer for timer in timers if _part_of(timer) is part]
        timers[:] = [timer for timer in timers if _part_of(timer) is not part]
        heapq.heapify(timers)
        return found

    def close(self) -> None:
        """Close the loop; a crashed one lets its perishables and its idle threads go first."""
        if self.crashed_at_s is not None and not self.is_closed():
            self._bury_tasks()
            for perishable in tuple(self._perishables):
                perishable.abandon()
            for worker in self._anyio_workers():
                worker.stop()  # else the interpreter waits for the thread when it exits
        super().close()

    def _bury_tasks(self) -> None:
        for task in asyncio.all_tasks(self):
            _immortalize(task)

    def _turn(self, select: Callable[[float | None], _Ready], timeout_s: float | None) -> _Ready:
        """One look at the world between two rounds of callbacks: what a selector does, without sleeping."""
        if self.crashed_at_s is not None:
            raise LoopCrashed
        if self._has_died:
            self._has_died = False
            for part in self._dead:  # its last step may have set some after the kill
                for timer in self._timers_of(part):
                    _immortalize(timer)
        if self._suspended or self._dead:
            self._put_aside()
        self._sort_cancelled()
        # Whoever calls from a thread is among what is ready already, and there is nothing else to ask the system for.
        ready = [] if timeout_s == 0 and self._only_wakes_itself() else select(0)
        if ready or timeout_s == 0:
            self._charge_for_round()
            return ready
        self._rounds = 0
        if self._threads_run():
            return self._wait_for_thread(select)
        if timeout_s is None:
            raise DeadlockError(self._description("deadlock: nothing is ready and no timer is set"))
        self._now_s += timeout_s
        return []

    def _only_wakes_itself(self) -> bool:
        """Whether no socket is watched but the one by which threads end a wait."""
        return len(self._selector.get_map()) == 1  # type: ignore[attr-defined]  # asyncio's own selector

    def _sort_cancelled(self) -> None:
        """Let tasks that are cancelled together wake in the order in which they were made.

        AnyIO cancels what is in a scope in the order of a set, which is that of addresses in memory: without this, one
        seed would cancel in another order on every run.
        """
        handles: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]  # asyncio's own queue
        if len(handles) < 2:
            return
        waking = tuple(handles)
        if not any(map(_cancelled_task, waking)):
            return
        for _ in waking:
            handles.popleft()  # in place: a thread may append meanwhile
        groups = (
            list(group) for _, group in itertools.groupby(waking, key=lambda handle: bool(_cancelled_task(handle)))
        )
        in_order = [handle for group in groups for handle in sorted(group, key=_cancelled_task)]
        handles.extendleft(reversed(in_order))

    def _put_aside(self) -> None:
        handles: deque[asyncio.Handle] = self._ready  # type: ignore[attr-defined]
        for _ in range(len(handles)):
            handle = handles.popleft()
            part = _part_of(handle)
            if part in self._dead:
                _immortalize(handle)
            elif (aside := self._suspended.get(part)) is not None:
                aside.handles.append(handle)
            else:
                handles.append(handle)

    def _charge_for_round(self) -> None:
        self._rounds += 1
        if self._rounds > ROUNDS_FREE:
            self._now_s += ROUND_S
        if self._rounds > ROUNDS_MAX:
            raise DeadlockError(self._description(f"livelock: {ROUNDS_MAX} rounds of callbacks without a pause"))

    def _wait_for_thread(self, select: Callable[[float | None], _Ready]) -> _Ready:
        waited_s, pause_s = 0.0, THREAD_WAIT_S_MAX if self.look is None else LOOK_S
        while waited_s < THREAD_WAIT_S_MAX:
            if ready := select(pause_s):
                return ready
            waited_s, pause_s = waited_s + pause_s, min(2 * pause_s, LOOK_S_MAX)
            if self.look is not None:
                self.look()
                if self._ready:  # type: ignore[attr-defined]  # asyncio's own queue
                    return []
        raise DeadlockError(self._description(f"a thread has run for over {THREAD_WAIT_S_MAX:g} s of real time"))

    def _threads_run(self) -> bool:
        # anyio hands work to its own threads without telling the loop; what it does tell, by a callback on the loop,
        # is that a worker is idle again, so this difference changes only between callbacks.
        idle = lowlevel._run_vars.get(self, {}).get(anyio_asyncio._threadpool_idle_workers, ())
        return self._futures_of_threads > 0 or len(self._anyio_workers()) > len(idle)

    def _anyio_workers(self) -> tuple[anyio_asyncio.WorkerThread, ...]:
        return tuple(lowlevel._run_vars.get(self, {}).get(anyio_asyncio._threadpool_workers, ()))

    def _thread_ended(self, _future: asyncio.Future[Any]) -> None:
        self._futures_of_threads -= 1

    def _description(self, trouble: str) -> str:
        tasks = sorted(asyncio.all_tasks(self), key=lambda task: getattr(task, "number", 0))
        return "\n".join([f"{trouble} (at {self._now_s:.6f} s)", *map(_description_of_task, tasks)])


class _VirtualSelector(selectors.DefaultSelector):
    """A selector that leaves it to the loop how long to wait."""

    def __init__(self, permit: Callable[[Callable[[float | None], _Ready], float | None], _Ready]) -> None:
        super().__init__()
        self._turn = permit

    def select(self, timeout: float | None = None) -> _Ready:
        return self._turn(super().select, timeout)


class _NumberedTask(asyncio.Task[Any]):
    """A task that knows how many were made on its loop before it, and to which part of the world it belongs."""

    def __init__(self, coro: Coroutine[Any, Any, Any], *, number: int, **options: Any) -> None:
        super().__init__(coro, **options)
        self.number = number
        self.part = PART.get()


class _Aside:
    """What waits for a part that stands still."""

    def __init__(self, timers: list[asyncio.TimerHandle]) -> None:
        self.timers = timers
        self.handles: list[asyncio.Handle] = []


def _numbered_task(loop: asyncio.AbstractEventLoop, coro: Any, /, **options: Any) -> _NumberedTask:
    assert isinstance(loop, VirtualLoop)
    return _NumberedTask(coro, loop=loop, number=next(loop.task_numbers), **options)


def _part_of(handle: asyncio.Handle) -> object:
    context: Context = handle._context  # type: ignore[attr-defined]
    return context.get(PART)


def _immortalize(thing: object) -> None:
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(thing))


def _cancelled_task(handle: asyncio.Handle) -> int:
    """The number of the task that this callback wakes with a cancellation; 0 for any other callback."""
    args: Any = handle._args
    if not args or not isinstance(args[0], asyncio.Future) or not args[0].cancelled():
        return 0
    task = getattr(handle._callback, "__self__", None)  # type: ignore[attr-defined]
    return task.number if isinstance(task, _NumberedTask) else 0


def running_loop() -> VirtualLoop:
    """The virtual loop that runs the caller.

    Raises:
        RuntimeError: no loop runs.
        TypeError: the running loop is on real time.
    """
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError("this works on virtual time only: use tests.simulation.run or the virtual_time marker")
    return loop


def _description_of_task(task: asyncio.Task[Any]) -> str:
    return "\n".join([f"  {task.get_name()} waits", *(f"    {place}" for place in _places(task.get_coro()))])


def _places(awaited: Any) -> Iterator[str]:
    """Where a coroutine waits, outermost first, as far as the chain of awaits can be followed."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "gi_frame", None)
        if frame is not None:
            yield f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_qualname}"
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)
