"""An object, named by its URL, which answers what is asked of a path: who reads a file need not know what it reads.

As text it is what may be kept and shown. A driver, or what speaks HTTP, is loaded once one is asked for anything.
"""

import io
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, TypeVar

from orchestrator.core.text.object_urls import (
    checked_url,
    is_object_url,
    is_web_url,
    object_name,
    scheme_of,
    shown_url,
)
from orchestrator.errors import UsageError
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.store_errors import StoreError, is_missing, store_error_of

T = TypeVar("T")

LEFT_S: Final = 1.0
"""So long a store that is asked may take to answer whoever leaves: what was tried there is then taken back."""

_WILD: Final = "*?["


def is_pattern(name: str) -> bool:
    """Whether the name of a file or a URL may mean several."""
    return any(wild in name for wild in _WILD)


@dataclass(frozen=True)
class ObjectUrl:
    """An object that is there, or is to come. What asks for it raises `StoreError`, an `OSError`, and `UsageError`
    where its driver is missing.
    """

    url: str = field(repr=False)
    """All of it. The query of a web address may be a signature: it is for asking only."""

    @classmethod
    def parsed(cls, text: str, *, is_written: bool = False) -> Self:
        """What `text` names, which `is_written`. Raises `UsageError`, which quotes nothing that may be a secret."""
        try:
            return cls(checked_url(text, is_written=is_written))
        except ValueError as error:
            raise UsageError(str(error)) from None

    def __str__(self) -> str:
        return shown_url(self.url)

    def __truediv__(self, name: str) -> Self:
        return type(self)(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of it, as a file would be called."""
        return object_name(self.url)

    @property
    def parent(self) -> Self:
        """What it is in."""
        return type(self)(self.url.rstrip("/").rpartition("/")[0])

    @property
    def is_web(self) -> bool:
        """Whether it is one of a web server, which can be read and not written."""
        return is_web_url(self.url)

    @property
    def is_pattern(self) -> bool:
        """Whether it may mean several objects."""
        return is_pattern(self.url) and not self.is_web

    def absolute(self) -> Self:
        """Itself: it is where it is, whatever the folder."""
        return self

    # --- reading

    def open(self, mode: str = "rb") -> io.BufferedReader:
        """Its bytes, as a stream that goes on where its connection breaks."""
        assert mode == "rb"
        from orchestrator.stores.ranged_reader import opened  # noqa: PLC0415  loads what asks again

        if self.is_web:
            from orchestrator.stores.web_source import WebSource  # noqa: PLC0415

            return opened(WebSource(self.url))
        from orchestrator.stores.driver_source import DriverSource  # noqa: PLC0415
        from orchestrator.stores.drivers import filesystem_of  # noqa: PLC0415

        return opened(DriverSource(self.url, filesystem_of(self.url)))

    def stat(self) -> ObjectState:
        """How it is found now."""
        from orchestrator.stores.repeats import LOOK_S, LOOK_TRIES, answered_within, repeating  # noqa: PLC0415

        state: ObjectState = repeating(str(self), tries=LOOK_TRIES)(answered_within, LOOK_S, self.look)
        return state

    def look(self) -> ObjectState:
        """The same, asked once: for who asks again by rules of their own."""
        if self.is_web:
            from orchestrator.stores.web_source import WebSource  # noqa: PLC0415

            return WebSource(self.url).look()
        from orchestrator.stores.driver_source import driver_state  # noqa: PLC0415
        from orchestrator.stores.drivers import filesystem_of  # noqa: PLC0415

        return driver_state(filesystem_of(self.url), self.url)

    def exists(self) -> bool:
        """Whether it is there."""
        try:
            self.stat()
        except StoreError as error:
            if is_missing(error):
                return False
            raise
        return True

    def is_file(self) -> bool:
        """Whether it is there: objects are nothing else."""
        return self.exists()

    def is_dir(self) -> bool:
        """Whether it is meant as a folder."""
        return self.url.endswith("/") and not self.is_web

    def matching(self) -> list[Self]:
        """The objects that a pattern means, in order: itself, where it is none, or is an object that is called so."""
        if not self.is_pattern:
            return [self]
        from orchestrator.stores.drivers import filesystem_of  # noqa: PLC0415

        if self.exists():
            return [self]
        filesystem = filesystem_of(self.url)
        try:
            found = filesystem.glob(self.url)
        except Exception as error:
            raise store_error_of(error) from error
        begins = f"{scheme_of(self.url)}://"
        return [type(self)(begins + str(each).removeprefix(begins)) for each in sorted(found)]

    # --- writing

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Removes it."""
        from orchestrator.stores.drivers import filesystem_of  # noqa: PLC0415

        try:
            filesystem_of(self.url).rm_file(self.url)
        except Exception as error:
            if missing_ok and isinstance(error, FileNotFoundError):
                return
            raise store_error_of(error) from error


Location = Path | ObjectUrl
"""A file of this machine, or an object elsewhere."""


def has_appeared(place: Location) -> bool:
    """Whether it is there by now. A store that cannot be asked now may say so later; raises `StoreError` for one that
    never will.
    """
    try:
        return place.is_file()
    except StoreError as error:
        if error.may_pass:
            return False
        raise


async def asked_about(ask: Callable[[], T], *places: Location | str | None) -> T:
    """What `ask` returns, which looks at `places`. Where one of them is in a store, a thread asks, as that may say
    nothing for a minute: whoever is cancelled meanwhile leaves it soon. Raises what `ask` raises.
    """
    if not any(isinstance(each, ObjectUrl) or (isinstance(each, str) and is_object_url(each)) for each in places):
        return ask()
    import anyio  # noqa: PLC0415  slow to load, and most commands name no store
    from anyio import to_thread  # noqa: PLC0415

    over = threading.Event()

    def ask_there() -> T:
        try:
            return ask()
        finally:
            over.set()

    try:
        return await to_thread.run_sync(ask_there, abandon_on_cancel=True)
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(over.wait, LEFT_S)
        raise


def location_of(text: str, folder: Path = Path(), *, is_written: bool = False) -> Location:
    """What is there by that name; a path counts from `folder`. Raises `UsageError` for a URL that is none, or, where
    it `is_written`, cannot be.
    """
    return ObjectUrl.parsed(text, is_written=is_written) if is_object_url(text) else folder / text
