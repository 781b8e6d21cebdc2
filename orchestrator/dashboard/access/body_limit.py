"""How much of a request's body is read, and no more."""

from typing import Final

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

from orchestrator.units import KIB

BODY_BYTES_MAX: Final = 64 * KIB


def declared_is_too_large(length: str | None) -> bool:
    """Whether a `Content-Length` says already that it is too much, or says nothing that makes sense."""
    return length is not None and (not length.isdecimal() or len(length) > 9 or int(length) > BODY_BYTES_MAX)  # noqa: PLR2004


def limited(receive: Receive) -> Receive:
    """`receive` that raises once more has come than is read: an unknown length is not believed to be short."""
    come = 0

    async def received() -> Message:
        nonlocal come
        message = await receive()
        come += len(message.get("body", b""))
        if come > BODY_BYTES_MAX:
            raise HTTPException(413, f"more than {BODY_BYTES_MAX // KIB} KiB are not read")
        return message

    return received
