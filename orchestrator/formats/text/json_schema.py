"""JSON Schemas that outputs have to fit.

A schema is a file of the user's and complete in itself: nothing that it refers to is fetched or read. Its patterns are
matched in linear time, so that no output can make a check take for ever. What is said of an output holds nothing of its
values: failures of a kind are counted together, and an output may be large.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

PLACES_MAX: Final = 3
"""So much of what is wrong with an output is told."""

Schema = Callable[[Any], str | None]
"""What is wrong with a value, in one line; None where it fits."""

_decode: Final = msgspec.json.Decoder().decode


def schema_of(path: Path) -> Schema:
    """The schema in that file. Raises `ValueError` where there is none that can be used, in words for its author."""
    import jsonschema_rs  # noqa: PLC0415  most runs have none

    try:
        text = path.read_bytes()
    except OSError as error:
        raise ValueError(f"the schema cannot be read ({error.strerror})") from None
    try:
        document = _decode(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the schema is not JSON: {error}") from None
    try:
        validator = jsonschema_rs.validator_for(
            document,
            retriever=_refuse,
            pattern_options=jsonschema_rs.RegexOptions(),
            mask="the value",
        )
    except jsonschema_rs.ValidationError as error:
        at = "".join(f"/{step}" for step in error.instance_path)
        if "registry" in error.message:  # in words of the library's own, which names what it would have to read
            raise ValueError(
                f"a schema may only refer to itself (#/...), and nothing is fetched: {error.message}"
            ) from None
        raise ValueError(f"this is no JSON Schema{' at ' if at else ''}{at}: {error.message}") from None
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise ValueError(f"this is no JSON Schema: {error}") from None

    def misfit(value: Any) -> str | None:
        found: list[str] = []
        for error in validator.iter_errors(value):
            if len(found) == PLACES_MAX:
                found.append("and more")
                break
            found.append(f"at {_place(error.instance_path)}, {error.message}")
        return "; ".join(found) or None

    return misfit


def _place(path: list[str | int]) -> str:
    """Where in the output, without the numbers of elements: the same mistake in each is one kind."""
    return f"output{''.join('[]' if isinstance(step, int) else f'.{step}' for step in path)}"


def _refuse(uri: str) -> NoReturn:
    raise ValueError(f"nothing is fetched: {uri}")
