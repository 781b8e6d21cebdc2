"""Objects as fsspec's drivers write them: they appear when their file is closed."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from threading import Event
from typing import Any, Final

from orchestrator.core.text.object_urls import shown_url
from orchestrator.stores.object_state import ObjectState
from orchestrator.stores.repeats import answered_within, until_answered
from orchestrator.units import MIB

BLOCK_BYTES: Final = 16 * MIB
DISCARD_S: Final = 10.0
"""So long may it take to have a store forget one, for which everybody waits."""


class DriverUpload:
    """The coming object at `url`. All of it raises `StoreError`. What is left of one that is not completed its store
    drops by itself, within a week.
    """

    def __init__(self, url: str, filesystem: Any, before: ObjectState | None, given_up: Event | None = None) -> None:
        """What was there `before` is to be there still. Nobody waits for anything once all is `given_up`."""
        self._url = url
        self._given_up = given_up
        self._filesystem = filesystem
        self._mode = "xb" if before is None else "wb"
        """With the first, the store itself sees to it that nothing is replaced."""

        self._file: Any = None

    @property
    def has_begun(self) -> bool:
        """Whether some of it is on its way."""
        return self._file is not None

    def add(self, part: bytes) -> None:
        """Some more of it."""
        if self._file is None:
            self._file = self._asked(partial(self._filesystem.open, self._url, self._mode, block_size=BLOCK_BYTES))
        self._asked(partial(self._file.write, part))

    def complete(self, rest: bytes) -> None:
        """Has the object appear."""
        self.add(rest)
        self._asked(self._file.close)
        self._file = None

    def abort(self) -> None:
        """It never appears."""
        if self._file is not None:
            with suppress(Exception):
                answered_within(DISCARD_S, self._file.discard)
            with suppress(Exception):
                self._file.closed = True  # else what is left of it is written when it is forgotten
        self._file = None

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """What its driver says, which asks again itself."""
        return until_answered(shown_url(self._url), ask, tries=1, given_up=self._given_up)
