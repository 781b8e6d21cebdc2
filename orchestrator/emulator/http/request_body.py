"""What the routes ask of a request: its body up to a limit, its numbers, and whether its sender still waits."""

from collections.abc import Awaitable, Callable

import anyio
from starlette.requests import ClientDisconnect, Request

from orchestrator.emulator.contract.answers import ConnectionCut, ServiceRefusal


async def read_bounded_body(request: Request, bytes_max: int) -> bytes:
    """The whole body. Raises Refusal 413 as soon as it is too long, ConnectionCut if its sender hangs up."""
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size > bytes_max:
                raise ServiceRefusal(413, f"the body is larger than {bytes_max} bytes")
            chunks.append(chunk)
    except ClientDisconnect:
        raise ConnectionCut from None
    return b"".join(chunks)


def milliseconds(request: Request, name: str) -> int | None:
    """The query parameter as a whole number, None if it is not there. Raises Refusal 400 for anything else."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isdecimal():
        raise ServiceRefusal(400, f"{name} must be a whole number of milliseconds")
    return int(text)


async def hold_request(request: Request, seconds: float, wait: Callable[[], Awaitable[object]]) -> bool:
    """Wait, but not longer than that, nor than the sender does; the body must have been read. False if it hung up."""
    is_there = True
    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as tasks:

            async def hear_hangup() -> None:
                nonlocal is_there
                while (await request.receive())["type"] != "http.disconnect":
                    pass
                is_there = False
                tasks.cancel_scope.cancel()

            tasks.start_soon(hear_hangup)
            await wait()
            tasks.cancel_scope.cancel()
    return is_there
