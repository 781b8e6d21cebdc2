"""Objects of web servers: one request that goes on to the end of the object, made again by a range where it breaks.

A server is believed in nothing that can be checked: which range an answer is, how long the object is, and that it is
the same as before. fsspec's own reader takes any answer to a range for that range.
"""

import email.utils
import errno
import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from contextvars import ContextVar
from http import HTTPStatus
from typing import Final

import httpx

from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.store_errors import StoreError, broken, changed, denied, not_there, store_error_of

CONNECT_S: Final = 10.0
SILENCE_S: Final = 60.0
"""A server that sends nothing for so long is asked again."""

_RANGE: Final = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_PASSING: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.TOO_EARLY, *range(500, 600)}
)

_is_asking: Final = ContextVar("is_asking", default=False)


class _WithoutQueries(logging.Filter):
    """httpx logs each URL that it asks for, and the query of one of ours may be a signature."""

    def filter(self, record: logging.LogRecord) -> bool:
        if _is_asking.get() and isinstance(record.args, tuple):
            record.args = tuple(
                each.copy_with(query=None) if isinstance(each, httpx.URL) else each for each in record.args
            )
        return True


logging.getLogger("httpx").addFilter(_WithoutQueries())


class WebSource:
    """One object of a web server."""

    def __init__(self, url: str, carrier: httpx.BaseTransport | None = None, *, silence_s: float = SILENCE_S) -> None:
        self.url = url
        self._client = httpx.Client(
            transport=carrier,
            follow_redirects=True,
            timeout=httpx.Timeout(silence_s, connect=CONNECT_S),
            headers={"Accept-Encoding": "identity"},  # else a range would be one of something else
            auth=_of_netrc(),
        )
        self._found: ObjectState | None = None
        self._tag = ""
        """By which the server answers on condition that the object is the same."""

        self._answer: httpx.Response | None = None
        self._chunks: Iterator[bytes] = iter(())
        self._rest = b""
        self._at = 0
        """Where `_rest`, and behind it `_chunks`, begin."""

    def state(self) -> ObjectState:
        if self._found is None:
            self._ask(0)
        assert self._found is not None
        return self._found

    def look(self) -> ObjectState:
        """The same, without asking for all of it: not every URL that may be got may be asked for its head."""
        self._ask(0, "0")
        self.close()
        assert self._found is not None
        return self._found

    def read(self, at: int, most: int) -> bytes:
        if self._answer is None or self._at != at:
            self._ask(at)
        data = self._rest or self._next()
        self._rest = data[most:]
        self._at += len(data[:most])
        return data[:most]

    def close(self) -> None:
        self._leave()
        self._client.close()

    def _leave(self) -> None:
        if self._answer is not None:
            with suppress(Exception):
                self._answer.close()
        self._answer, self._chunks, self._rest = None, iter(()), b""

    def _next(self) -> bytes:
        try:
            return next(self._chunks, b"")
        except httpx.HTTPError as error:
            self._leave()
            raise store_error_of(error) from error

    def _ask(self, at: int, last: str = "") -> None:
        """Begins the bytes from `at` on."""
        self._leave()
        headers = {"Range": f"bytes={at}-{last}"} | ({"If-Match": self._tag} if self._tag else {})
        before = _is_asking.set(True)
        try:
            answer = self._client.send(self._client.build_request("GET", self.url, headers=headers), stream=True)
        except httpx.HTTPError as error:
            raise store_error_of(error) from error
        except (httpx.InvalidURL, ValueError) as error:
            raise StoreError(errno.EINVAL, "this is no URL") from error
        finally:
            _is_asking.reset(before)
        self._answer, self._at = answer, at
        try:
            self._begin(answer, at)
        except BaseException:
            self._leave()
            raise

    def _begin(self, answer: httpx.Response, at: int) -> None:
        match answer.status_code:
            case HTTPStatus.PARTIAL_CONTENT:
                begins, size = _range_of(answer)
                if begins != at:
                    raise StoreError(errno.EIO, "the server answers a range with another one")
                self._is_same(answer, size)
                self._chunks = answer.iter_raw()
            case HTTPStatus.OK:
                length = answer.headers.get("content-length", "")
                self._is_same(answer, int(length) if length.isdigit() else None)
                self._chunks = answer.iter_raw()
                self._skip(at)
            case HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                _, size = _range_of(answer)
                self._is_same(answer, size or 0)
                if at > (size or 0):
                    raise changed()
            case status:
                raise _refusal(status)

    def _skip(self, at: int) -> None:
        """The server knows no ranges: what was read before is read again, and dropped."""
        while at:
            data = self._next()
            if not data:
                raise broken("it ends before the byte that was read last")
            self._rest = data[at:]
            at -= min(at, len(data))

    def _is_same(self, answer: httpx.Response, size: int | None) -> None:
        """Raises `StoreError` where what is answered is not of what was found first."""
        tag, written = answer.headers.get("etag", ""), answer.headers.get("last-modified", "")
        found = ObjectState(
            size=size, identity=f"ETag {tag}" if tag else written and f"of {written}", modified_ns=_nanoseconds(written)
        )
        if self._found is None:
            self._found, self._tag = found, "" if tag.startswith("W/") else tag
        elif not found.is_same(self._found):
            raise changed()


def _range_of(answer: httpx.Response) -> tuple[int | None, int | None]:
    """Which byte an answer begins with, and how many there are in all."""
    found = _RANGE.fullmatch(answer.headers.get("content-range", "").strip())
    if found is None:
        return None, None
    return None if found[1] is None else int(found[1]), None if found[3] == "*" else int(found[3])


def _refusal(status: int) -> StoreError:
    match status:
        case HTTPStatus.NOT_FOUND | HTTPStatus.GONE:
            return not_there()
        case HTTPStatus.UNAUTHORIZED | HTTPStatus.FORBIDDEN:
            return denied(f"access is denied ({status:d})")
        case HTTPStatus.PRECONDITION_FAILED:
            return changed()
        case _ if status in _PASSING:
            return broken(f"the server answers {status:d}")
        case _:
            return StoreError(errno.EIO, f"the server answers {status:d}")


def _nanoseconds(written: str) -> int:
    try:
        return round(email.utils.parsedate_to_datetime(written).timestamp()) * 1_000_000_000
    except ValueError:
        return 0


def _of_netrc() -> httpx.Auth | None:
    """Who we are at which server, by the file where programs look for that."""
    try:
        return httpx.NetRCAuth()
    except Exception:  # noqa: BLE001  there is none, or it is unreadable: then nobody has said who we are
        return None
