"""A file on its way to us: streamed to the disk, bounded while it comes, and nothing is left of one that was cut."""

from collections.abc import AsyncIterator
from typing import Final

import anyio
from anyio import to_thread
from starlette.requests import ClientDisconnect, Request

from orchestrator.api.batch_api.file_store import FileStore, new_id
from orchestrator.api.batch_api.refusals import RefusalKind, RequestRefusedError
from orchestrator.batch_api.multipart import FormError, FormReader
from orchestrator.core.batch_api.posted_file import PostedFile, Purpose, file_expiry
from orchestrator.core.text.whole_numbers import plain_number
from orchestrator.formats.output.atomic_file import Replacement
from orchestrator.settings.batch_api.batch_api_settings import MB
from orchestrator.units import KIB, MIB

SILENT_S_MAX: Final = 60.0
"""Who sends nothing for so long is gone."""

SLOWEST: Final = KIB
"""Whoever has sent for longer than that sends so many bytes a second on the average: some hundred who do not would
take all connections.
"""

FORM_BYTES: Final = 256 * KIB
"""What a form has at most beside its file."""

_PIECES_BYTES: Final = MIB
"""So much is handed to the disk at once."""


async def receive_upload(request: Request, store: FileStore, owner: str) -> PostedFile:
    """The file that a request brings, once it is there to stay. Raises `RequestRefusedError`, and `StorageError` where
    it cannot be kept.
    """
    most = store.settings.file_bytes_max
    declared = plain_number(request.headers.get("content-length", ""), digits_max=18)
    if declared is not None and declared > most + FORM_BYTES:
        raise _too_large(store)
    try:
        form = FormReader(request.headers.get("content-type"))
        coming = most if declared is None else min(declared, most)
        async with store.room(owner, coming):
            return await _kept(request, store, owner, form)
    except FormError as error:
        raise RequestRefusedError(str(error), param="file") from error


async def _kept(request: Request, store: FileStore, owner: str, form: FormReader) -> PostedFile:
    with store.coming(new_id("file-")) as content:
        size = await _Upload(request, store, content, form).receive()
        if form.filename is None:
            raise RequestRefusedError("'file' is a required property", param="file")
        expires_at = _checked(form, store.ledger.now())
        return await store.add(owner, content, filename=form.filename, size=size, expires_at=expires_at)


def _too_large(store: FileStore) -> RequestRefusedError:
    most = store.settings.file_bytes_max / MB
    return RequestRefusedError(f"The file is larger than {most:,.0f} MB", RefusalKind.TOO_LARGE, param="file")


class _Upload:
    """The content of a file, out of the form in which it comes."""

    def __init__(self, request: Request, store: FileStore, content: Replacement, form: FormReader) -> None:
        self._request = request
        self._store = store
        self._content = content
        self._form = form
        self._pieces: list[bytes] = []
        self._waiting = 0
        self._size = 0
        self._come = 0
        """With all else that the form has."""

        self._began_at = anyio.current_time()

    async def receive(self) -> int:
        """Reads to the end of the form; returns how many bytes the file has."""
        stream = aiter(self._request.stream())
        while data := await self._next(stream):
            self._come += len(data)
            for piece in self._form.feed(data):
                self._add(piece)
            if self._come > self._store.settings.file_bytes_max + FORM_BYTES:
                raise _too_large(self._store)
            if self._waiting >= _PIECES_BYTES:
                await self._write()
        if not self._form.is_complete:
            raise FormError("the form ends before its end")
        await self._write()
        return self._size

    async def _next(self, stream: AsyncIterator[bytes]) -> bytes:
        """What comes next; nothing at the end."""
        slow_in_s = self._began_at + SILENT_S_MAX + self._come / SLOWEST - anyio.current_time()
        try:
            with anyio.fail_after(min(SILENT_S_MAX, slow_in_s)):
                return await anext(stream, b"")
        except TimeoutError:
            told = f"nothing more came for {SILENT_S_MAX:.0f} s" if slow_in_s >= SILENT_S_MAX else "it comes too slowly"
            raise FormError(told) from None
        except ClientDisconnect:  # nobody hears that any more
            raise FormError("the form was cut off") from None

    def _add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._store.settings.file_bytes_max:
            raise _too_large(self._store)
        self._pieces.append(piece)
        self._waiting += len(piece)

    async def _write(self) -> None:
        pieces, self._pieces, self._waiting = self._pieces, [], 0
        await to_thread.run_sync(self._content.write, b"".join(pieces))


def _checked(form: FormReader, now: int) -> int | None:
    """When the file is to expire, as its sender says, if that is said. Raises `RequestRefusedError`."""
    purpose = form.fields.get("purpose")
    if purpose != Purpose.BATCH:
        told = "is a required property" if purpose is None else f'"{purpose:.40}" is not taken here'
        raise RequestRefusedError(f"'purpose' {told}: write \"{Purpose.BATCH}\"", param="purpose")
    try:
        anchor, seconds = (form.fields.get(f"expires_after[{each}]") for each in ("anchor", "seconds"))
        return file_expiry(anchor, seconds, created_at=now)
    except ValueError as error:
        raise RequestRefusedError(str(error), param="expires_after") from error
