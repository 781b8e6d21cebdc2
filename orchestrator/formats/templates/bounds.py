"""What a template may come to: how much text, how large a number, how long a loop.

A template is a person's, and its row is somebody else's: `{{ row.text * row.n }}` is as much as the row says. So every
operation that can make much of little is asked before it is carried out, and whatever is made is paid for out of an
allowance, of which each render has the same. Nothing waits for a clock: the same row has the same end everywhere.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import Any, Final

SIZE_MAX: Final = 16 * 1024 * 1024
"""No text, and no list with all that is in it, may be larger: no request is."""

WORK_MAX: Final = 64 * 1024 * 1024
"""What all operations of one render may make together, in characters."""

MEMBER: Final = 16
"""What a member of a list or an object counts, besides what it holds: to go through them takes its time, too."""

STEP: Final = 256
"""What an operation, or a turn of a loop, costs besides what it makes."""

DIGITS_MAX: Final = 4_000
"""No whole number may have more: Python writes no longer ones."""

WIDTH_MAX: Final = 1_000_000
"""No width, and no number of columns, may be larger."""

_BITS_MAX: Final = DIGITS_MAX * 10 // 3
_WIDE: Final = re.compile(r"\d{7,}|\*|\{[^{}]*\{")
"""In a format: a width of seven digits and more, or one that an argument gives."""

_TOO_MUCH: Final = "this makes more of one row than templates may: {} characters, digits or columns are the most"
_GROWING: Final = frozenset({"center", "ljust", "rjust", "zfill", "expandtabs", "to_bytes"})
"""The methods of texts and numbers whose arguments are widths."""


class TooMuchError(ValueError):
    """A template would come to more than it may."""

    def __init__(self, most: int = SIZE_MAX) -> None:
        super().__init__(_TOO_MUCH.format(f"{most:,}"))


class Allowance(threading.local):
    """What the render at work in this thread has left."""

    def __init__(self) -> None:
        self.left = WORK_MAX

    def renew(self) -> None:
        """Another render begins."""
        self.left = WORK_MAX

    def spend(self, size: int = 0) -> None:
        """So much is about to be made. Raises `TooMuchError`."""
        self.left -= size + STEP
        if size > SIZE_MAX:
            raise TooMuchError
        if self.left < 0:
            raise TooMuchError(WORK_MAX)

    def made(self, value: Any) -> Any:
        """`value`, which is paid for with all that is in it."""
        self.spend(weight(value))
        return value


def weight(value: object) -> int:
    """The characters and members of `value`, of each thing in it as often as it is there; not further than it takes to
    see that it is too much.
    """
    if isinstance(value, str | bytes):
        return len(value)
    total, left = 0, [value]
    while left and total <= SIZE_MAX:
        each = left.pop()
        if isinstance(each, str | bytes):
            total += len(each)
            continue
        total += MEMBER
        if not isinstance(each, Mapping | list | tuple | set | frozenset):
            continue
        if total + MEMBER * len(each) > SIZE_MAX:  # before any of them is looked at
            return total + MEMBER * len(each)
        if isinstance(each, Mapping):
            left.extend(each.values())
            total += sum(len(key) for key in each if isinstance(key, str))
        else:
            left.extend(each)
    return total


def checked_operation(operator: str, left: Any, right: Any) -> int:
    """How much `left operator right` makes. Raises `TooMuchError` where that is too much, before it is made."""
    match operator:
        case "*":
            return _multiplied(left, right)
        case "**":
            if isinstance(left, int) and isinstance(right, int) and left.bit_length() * max(right, 0) > _BITS_MAX:
                raise TooMuchError(DIGITS_MAX)
        case "%" if isinstance(left, str | bytes):
            check_format(str(left))
            return len(left) + weight(right)
        case "+" if isinstance(left, str | bytes | list | tuple):
            return weight(left) + weight(right)
        case _:
            pass
    return 0


def _multiplied(left: Any, right: Any) -> int:
    if isinstance(left, int) and isinstance(right, int):
        if left.bit_length() + right.bit_length() > _BITS_MAX:
            raise TooMuchError(DIGITS_MAX)
        return 0
    many, times = (left, right) if isinstance(right, int) else (right, left)
    if isinstance(times, int) and isinstance(many, str | bytes | list | tuple):
        if times > SIZE_MAX:
            raise TooMuchError
        return weight(many) * max(times, 0)
    return 0


def check_format(text: str) -> None:
    """Raises `TooMuchError` for a format with a width that is too large, or that its arguments are to give."""
    if _WIDE.search(text):
        raise TooMuchError(WIDTH_MAX)


def check_call(called: Any, arguments: Sequence[Any], named: Mapping[str, Any]) -> int:
    """How much a call makes, at least. Raises `TooMuchError`."""
    name, wrapped = getattr(called, "__name__", ""), getattr(called, "__wrapped__", None)
    of = getattr(called if wrapped is None else wrapped, "__self__", None)  # Jinja wraps `format`
    given = (*arguments, *named.values())
    if isinstance(of, str | bytes | int) and not isinstance(of, bool):
        if name in _GROWING:
            check_widths(given)
            if name == "expandtabs":
                return len(of) * max((each for each in given if isinstance(each, int)), default=8)  # type: ignore[arg-type]
        if name in ("format", "format_map"):
            check_format(str(of))
        if name == "replace" and len(given) > 1:
            return _replaced(of, *given[:2])
        if name == "join" and given and isinstance(given[0], Iterable):
            parts = list(given[0]) if isinstance(given[0], list | tuple | str) else []
            return weight(parts) + len(of) * len(parts)  # type: ignore[arg-type]
    if isinstance(of, list | dict | set) and name in ("extend", "update"):
        return weight(of) + sum(map(weight, given))
    return sum(weight(each) for each in given)


def _replaced(of: Any, old: Any, new: Any) -> int:
    try:
        return len(of) + int(of.count(old)) * len(new)
    except TypeError:
        return 0


def check_widths(given: Iterable[Any]) -> None:
    """Raises `TooMuchError` for a number that is too large for a width."""
    if any(isinstance(each, int) and each > WIDTH_MAX for each in given):
        raise TooMuchError(WIDTH_MAX)


def checked_filter(name: str, apply: Callable[..., Any], allowance: Allowance) -> Callable[..., Any]:
    """The filter called `name`, which pays for what it is given and makes."""

    @wraps(apply)
    def checked(*arguments: Any, **named: Any) -> Any:
        if name == "join":  # which goes through all of it anyway
            arguments = tuple(list(each) if isinstance(each, Iterator) else each for each in arguments)
        values = [each for each in (*arguments, *named.values()) if isinstance(each, _VALUES)]
        if values:
            allowance.spend(sum(map(weight, values)) + _grown(name, values[0], values[1:]))
        made = apply(*arguments, **named)
        return allowance.made(made) if isinstance(made, str | bytes | list | tuple | dict) else made

    return checked


_VALUES: Final = (str, bytes, list, tuple, dict, int, float)


def _grown(name: str, value: Any, given: Sequence[Any]) -> int:
    """How much the filter called `name` adds to `value`, by what it is `given`. Raises `TooMuchError`."""
    numbers = [each for each in given if isinstance(each, int)]
    texts = [str(each) for each in given if isinstance(each, str)]
    match name:
        case "center" | "batch" | "slice":
            check_widths(numbers)
        case "round" if any(abs(each) > DIGITS_MAX for each in numbers):
            raise TooMuchError(DIGITS_MAX)
        case "format":
            check_format(str(value))
        case "replace" if len(texts) > 1:
            return _replaced(str(value), *texts[:2])
        case "join" if texts and isinstance(value, list | tuple | str):
            return len(texts[0]) * len(value)
        case "indent":
            return (str(value).count("\n") + 1) * max([4, *numbers, *map(len, texts)])
        case "wordwrap":
            return weight(value) * max([1, *map(len, texts)])
        case _:
            pass
    return 0
