"""Several things done beside one another, no more at once than there may be."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import anyio

from orchestrator.errors import leading

T = TypeVar("T")


async def all_of(works: Sequence[Callable[[], Awaitable[T]]], *, most: int) -> list[T]:
    """What each of `works` returns, in their order; at `most` so many are under way. Where one raises, the others are
    cancelled, and that is raised.
    """
    if len(works) == 1:
        return [await works[0]()]
    found: dict[int, T] = {}
    turns = iter(enumerate(works))

    async def take_turns() -> None:
        for number, work in turns:
            found[number] = await work()

    try:
        async with anyio.create_task_group() as group:
            for _ in range(min(most, len(works))):
                group.start_soon(take_turns)
    except BaseExceptionGroup as errors:
        raise leading(errors) from errors
    return [found[number] for number in range(len(works))]
