"""What the outputs of one run have to be: by a JSON Schema, by a function of the user's, or by both."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator import declared
from orchestrator.core.responses import MESSAGE_CHARS_MAX
from orchestrator.errors import UsageError
from orchestrator.formats.schemas import Schema, schema_of
from orchestrator.settings import Pinned, RunSettings
from orchestrator.user_code import UserCodeError, call, import_function, load_function
from orchestrator.written import check_function, schema_file

Check = Callable[[Any], Any]
"""Takes an output; returns anything but None and False for a good one, or raises what is wrong with it."""

_decode: Final = msgspec.json.Decoder().decode


class CheckDiedError(Exception):
    """The function did not come to an end as functions do: what it says of outputs cannot be relied on."""


class Validator:
    """Of one run. Made by `validator_of`; called in a thread."""

    def __init__(self, schema: Schema | None, check: Check | None) -> None:
        self._schema = schema
        self._check = check

    def why_invalid(self, output: bytes | None) -> str | None:
        """What is wrong with the JSON text `output` (None: there was none); None where it is good.

        Raises `CheckDiedError`.
        """
        try:
            value = None if output is None else _decode(output)
        except (ValueError, RecursionError) as error:
            return f"the output cannot be decoded: {error}"
        why = None if self._schema is None else self._misfit(self._schema, value)
        if why is None and self._check is not None:
            why = _said(self._check, value)
        return None if why is None else why[:MESSAGE_CHARS_MAX]

    @staticmethod
    def _misfit(schema: Schema, value: Any) -> str | None:
        try:
            return schema(value)
        except ValueError as error:  # nested too deeply, or a number that it cannot hold
            return f"the output cannot be held against the schema: {error}"


def _said(check: Check, value: Any) -> str | None:
    try:
        said = call(check, value)
    except UserCodeError as error:
        if error.is_exit:  # it did not come to its end
            raise CheckDiedError(f"it ended with {error}") from error.error
        return str(error)
    return f"the check has returned {said}" if said is None or said is False else None


def validator_of(settings: RunSettings) -> Validator | None:
    """What judges the outputs of a run with these settings; None where nothing does.

    Raises `UsageError` where its schema or its function is not what it was when it was named, or cannot be used.
    """
    schema, check = settings.schema, settings.check
    if schema is None and check is None:
        return None
    return Validator(
        None if schema is None else _loaded_schema(schema), None if check is None else _loaded_check(check)
    )


def _loaded_schema(pinned: Pinned) -> Schema:
    named = f"{declared.SCHEMA} {pinned.ref}"
    try:
        _check_unchanged(named, pinned, schema_file(pinned.ref))
        return schema_of(Path(pinned.ref))
    except ValueError as error:
        raise UsageError(f"{named}: {error}") from None


def _loaded_check(pinned: Pinned) -> Check:
    named = f"{declared.CHECK} {pinned.ref}"
    try:
        _check_unchanged(named, pinned, check_function(pinned.ref))
    except ValueError as error:
        raise UsageError(f"{named}: {error}") from None
    place, _, name = pinned.ref.rpartition(":")
    is_file = place.endswith(".py")
    check = load_function(pinned.ref, str(declared.CHECK)) if is_file else import_function(place, name, named)
    if inspect.iscoroutinefunction(check) or inspect.isgeneratorfunction(check):
        raise UsageError(f"{named}: {name} must be a plain function, neither async nor a generator")
    return check


def _check_unchanged(named: str, pinned: Pinned, now: Pinned) -> None:
    if now.sha256 != pinned.sha256:
        raise UsageError(
            f"{named}: the file has changed since the run was given it; run the same command again, with"
            f" {named.partition(' ')[0]}, to go on with the file as it is now"
        )
