"""What a promise is: in words, what it rests on, what breaks it, and the tests that show it."""

from collections.abc import Mapping

import msgspec


class Promise(msgspec.Struct, frozen=True, kw_only=True):
    """One promise to the user."""

    number: str
    title: str
    text: str
    assumptions: tuple[str, ...]
    breaks: tuple[str, ...]
    tests: tuple[str, ...]
    figures: Mapping[str, tuple[str, ...]] = {}

    def is_about(self, module: str, figure: str) -> bool:
        """Whether `figure`, recorded by `module`, stands with this promise."""
        return figure.startswith(self.figures.get(module, ()))
