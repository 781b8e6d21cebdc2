"""What the outputs of one run have to be: by a JSON Schema, by a function of the user's, or by both."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.core.service.job_record import MESSAGE_CHARS_MAX
from orchestrator.engine.user_code.functions import CheckCall, CheckLoad, PerformsTasks, UserFunctions, UserProcessDied
from orchestrator.errors import UsageError
from orchestrator.formats.text.json_schema import Schema, schema_of
from orchestrator.settings.parsers.job_parsers import parse_check, parse_schema
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import Pinned

_decode: Final = msgspec.json.Decoder().decode


class CheckDiedError(Exception):
    """The function did not come to an end as functions do: what it says of outputs cannot be relied on."""


class Validator:
    """Of one run. Made by `validator_of`; called in a thread."""

    def __init__(self, schema: Schema | None, check: "LoadedCheck | None") -> None:
        self._schema = schema
        self._check = check

    def leave(self) -> None:
        """Lets go of its function, whatever that does: nobody waits for it any more."""
        if self._check is not None:
            self._check.code.close()

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
            why = self._check.why_invalid(output)
        return None if why is None else why[:MESSAGE_CHARS_MAX]

    @staticmethod
    def _misfit(schema: Schema, value: Any) -> str | None:
        try:
            return schema(value)
        except ValueError as error:  # nested too deeply, or a number that it cannot hold
            return f"the output cannot be held against the schema: {error}"


class LoadedCheck:
    """A function of the user's, called `named` in messages. Raises `UsageError` where it cannot be had."""

    def __init__(self, code: PerformsTasks, reference: str, named: str) -> None:
        self.code = code
        self._reference = reference
        self._named = named
        if (why := code.do(CheckLoad(reference=reference, called=named)).refused) is not None:
            code.close()
            raise UsageError(why)

    def why_invalid(self, output: bytes | None) -> str | None:
        """What it says is wrong with `output`. Raises `CheckDiedError`."""
        try:
            answer = self.code.do(CheckCall(reference=self._reference, called=self._named, output=output))
        except UserProcessDied as error:
            raise CheckDiedError(str(error)) from None
        if (how := answer.died or answer.refused) is not None:
            raise CheckDiedError(how)
        return answer.error


def validator_of(settings: RunSettings, make_code: Callable[[], PerformsTasks] = UserFunctions) -> Validator | None:
    """What judges the outputs of a run with these settings; None where nothing does. `make_code` makes what calls its
    function.

    Raises `UsageError` where its schema or its function is not what it was when it was named, or cannot be used.
    """
    schema, check = settings.schema, settings.check
    if schema is None and check is None:
        return None
    return Validator(
        None if schema is None else _loaded_schema(schema),
        None if check is None else _loaded_check(check, make_code),
    )


def named_validator(schema: Pinned | None, check: Pinned | None) -> str:
    """What messages call the one that judges last."""
    if check is not None:
        return f"the check {check.ref}"
    assert schema is not None
    return f"the schema {schema.ref}"


def _loaded_schema(pinned: Pinned) -> Schema:
    named = named_validator(pinned, None)
    try:
        _check_unchanged(named, "<setting schema>", pinned, parse_schema(pinned.ref))
        return schema_of(Path(pinned.ref))
    except ValueError as error:
        raise UsageError(f"{named}: {error}") from None


def _loaded_check(pinned: Pinned, make_code: Callable[[], PerformsTasks]) -> LoadedCheck:
    named = named_validator(None, pinned)
    try:
        _check_unchanged(named, "<setting check>", pinned, parse_check(pinned.ref))
    except ValueError as error:
        raise UsageError(f"{named}: {error}") from None
    try:
        return LoadedCheck(make_code(), pinned.ref, named)
    except UserProcessDied as error:
        raise UsageError(f"{named}: it cannot be loaded: {error}") from None


def _check_unchanged(named: str, setting: str, pinned: Pinned, now: Pinned) -> None:
    if now.sha256 != pinned.sha256:
        raise UsageError(
            f"{named}: the file has changed since the run was given it; run the same command again, with"
            f" {setting}, to go on with the file as it is now"
        )
