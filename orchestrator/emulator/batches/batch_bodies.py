"""Reads the bodies of `/batch`: its requests have the shape of those of `/run`, of which only the input counts here."""

from typing import TypeVar

import msgspec

from orchestrator.emulator.batches.batch_rules import NAME_LENGTH_MAX
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.run_body import json_object

T = TypeVar("T")


class _Request(msgspec.Struct, frozen=True):
    """Unknown keys are dropped, a policy and a webhook among them (not documented)."""

    input: msgspec.Raw


class _Appended(msgspec.Struct, frozen=True):
    requests: list[_Request]


class _Attributes(msgspec.Struct, frozen=True):
    name: str


def requests_created(raw: bytes) -> tuple[bytes, ...]:
    """The inputs in the body of a create, an array at its top. Raises ServiceRefusal 400."""
    return _inputs(_decode(raw, list[_Request]))


def requests_appended(raw: bytes) -> tuple[bytes, ...]:
    """The inputs in the body of an append: `{"requests": [...]}`. Raises ServiceRefusal 400."""
    return _inputs(_decode(raw, _Appended).requests)


def name_given(raw: bytes) -> str:
    """The name in the body of a change. Raises ServiceRefusal 400."""
    name = _decode(raw, _Attributes).name
    if len(name) > NAME_LENGTH_MAX:
        raise ServiceRefusal(400, f"name must have at most {NAME_LENGTH_MAX} characters")
    return name


def _inputs(requests: list[_Request]) -> tuple[bytes, ...]:
    return tuple(json_object(f"requests[{place}].input", each.input) for place, each in enumerate(requests))


def _decode(raw: bytes, kind: type[T]) -> T:
    try:
        raw.decode()  # msgspec does not look inside the strings of what stays raw, and JSON is UTF-8
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise ServiceRefusal(400, f"bad request: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ServiceRefusal(400, "bad request: the body is not valid JSON") from None
