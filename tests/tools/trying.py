"""What the programs of this folder have in common: a call is tried, and what came of it is one line of JSON."""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")


def tell(call: str, why: str) -> None:
    """`why` is empty where the call works."""
    sys.stdout.write(json.dumps({"call": call, "why": why}) + "\n")
    sys.stdout.flush()


def tried(call: str, work: Callable[[], T]) -> T | None:
    """What `work` returns; None where it fails, which is told."""
    try:
        found = work()
    except Exception as error:  # noqa: BLE001  whatever a tool raises is what its user sees
        tell(call, f"{type(error).__name__}: {error}"[:200])
        return None
    tell(call, "")
    return found


async def tried_async(call: str, work: Callable[[], Awaitable[T]]) -> T | None:
    """The same of what is awaited."""
    try:
        found = await work()
    except Exception as error:  # noqa: BLE001  likewise
        tell(call, f"{type(error).__name__}: {error}"[:200])
        return None
    tell(call, "")
    return found
