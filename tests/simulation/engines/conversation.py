"""What is said on a line to a server: which messages, and whether the server has an answer to give still."""

from collections.abc import Iterator
from typing import Final

_QUERY, _DESCRIBED = b"QH"
_ASK: Final = frozenset(b"QScfH")
"""Messages of a client after which the server has something to say; so is the first one, which has no letter."""

_READY, _COPY, _KEY, _IDLE = b"ZGKI"
"""Messages of the server: it is ready, it wants the rows of a COPY, the number of its process; and a state of the first."""

_DESCRIPTION: Final = frozenset(b"TnE")
"""Those that end the description of a statement."""


class Conversation:
    """That of one line."""

    def __init__(self) -> None:
        self.backend: int | None = None
        """The server's process at its other end, once that has said which."""

        self._awaited = self._described = 0
        """How many answers are still to come, and how many of these describe a statement."""

        self._asked, self._told = Messages(is_client=True), Messages(is_client=False)

    @property
    def is_awaited(self) -> bool:
        """Whether the server has an answer to give still."""
        return self._awaited > 0

    def ask(self, data: bytes) -> None:
        """The server has got this."""
        letters = [letter for letter, _ in self._asked.of(data)]
        self._awaited += sum(letter in _ASK for letter in letters)
        self._described += letters.count(_DESCRIBED)

    def hear(self, data: bytes) -> bool:
        """The server has said this. Whether no transaction is open there any more."""
        has_ended = False
        for letter, message in self._told.of(data):
            if letter == _KEY:
                self.backend = int.from_bytes(message[5:9], "big")
            elif letter in (_READY, _COPY) or (self._described and letter in _DESCRIPTION):
                self._awaited -= 1
                self._described -= letter in _DESCRIPTION
                has_ended = has_ended or (letter == _READY and message[5] == _IDLE)
        self._awaited = max(self._awaited, 0)
        return has_ended

    def end(self) -> None:
        """The server says nothing any more."""
        self._awaited = 0


class Messages:
    """The messages in what comes on one way of a line. The first of a client has no letter."""

    def __init__(self, *, is_client: bool) -> None:
        self._buffer = bytearray()
        self._has_letter = not is_client

    def of(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Each that is whole by now: its letter, and the whole of it."""
        self._buffer += data
        while True:
            head = 1 if self._has_letter else 0
            if len(self._buffer) < head + 4:
                return
            end = head + int.from_bytes(self._buffer[head : head + 4], "big")
            if len(self._buffer) < end:
                return
            message = bytes(self._buffer[:end])
            del self._buffer[:end]
            self._has_letter = True
            yield (message[0] if head else _QUERY), message
