"""Faults as a user names them: in a TOML file, or as NAME=RATE."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from orchestrator.emulator.contract.faults import Faults
from orchestrator.errors import UsageError


def read_faults(path: Path | None, given: Sequence[str] = ()) -> Faults:
    """The faults of a TOML file whose keys are those of `Faults`, and over them those of `name=number` texts.

    `name=rate@from+for` is a spell, in seconds.

    Raises UsageError for a file that cannot be read, and for an unknown name, with the names there are.
    """
    values: dict[str, object] = {}
    if path is not None:
        try:
            values.update(tomllib.loads(path.read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(f"faults file {path}: cannot be read ({error.strerror})") from error
        except ValueError as error:
            raise UsageError(f"faults file {path}: {error}") from error
    spells: list[object] = []
    for text in given:
        name, equals, number = text.partition("=")
        if not equals:
            raise UsageError(f"fault {text!r}: write it as NAME=RATE, or as NAME=RATE@FROM+FOR for a while")
        rate, at, times = number.partition("@")
        fault = {name.strip(): _number(rate, text)}
        if at:
            from_s, _, for_s = times.partition("+")
            spells.append({**fault, "from_s": _number(from_s, text), "for_s": _number(for_s, text)})
        else:
            values.update(fault)
    if spells:
        in_file = values.get("spells")
        values["spells"] = [*(in_file if isinstance(in_file, list) else ()), *spells]
    try:
        faults = msgspec.convert(values, _StrictFaults)
    except msgspec.ValidationError as error:
        names = ", ".join(Faults.__struct_fields__)
        raise UsageError(f"faults: {error}; the names are {names}") from None
    return Faults(**{name: getattr(faults, name) for name in Faults.__struct_fields__})


def _number(text: str, fault: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"fault {fault!r}: {text!r} is not a number") from None


class _StrictFaults(Faults, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same, and a slip of the pen is an error."""
