"""Reads the bodies of `/batch`: its requests have the shape of those of `/run`, of which only the input counts here."""

from typing import Final

import msgspec

from orchestrator.emulator.batches.batch_rules import NAME_LENGTH_MAX
from orchestrator.emulator.contract.answers import ServiceRefusal
from orchestrator.emulator.jobs.run_body import decoded, json_object


class _Request(msgspec.Struct, frozen=True):
    """Unknown keys are dropped, a policy and a webhook among them (not documented)."""

    input: msgspec.Raw


class _Appended(msgspec.Struct, frozen=True):
    requests: list[_Request]


class _Attributes(msgspec.Struct, frozen=True):
    name: str


_CREATED: Final = msgspec.json.Decoder(list[_Request])
_APPENDED: Final = msgspec.json.Decoder(_Appended)
_ATTRIBUTES: Final = msgspec.json.Decoder(_Attributes)


def requests_created(raw: bytes) -> tuple[bytes, ...]:
    """The inputs in the body of a create, an array at its top. Raises ServiceRefusal 400."""
    return _inputs(decoded(raw, _CREATED))


def requests_appended(raw: bytes) -> tuple[bytes, ...]:
    """The inputs in the body of an append: `{"requests": [...]}`. Raises ServiceRefusal 400."""
    return _inputs(decoded(raw, _APPENDED).requests)


def name_given(raw: bytes) -> str:
    """The name in the body of a change. Raises ServiceRefusal 400."""
    name = decoded(raw, _ATTRIBUTES).name
    if len(name) > NAME_LENGTH_MAX:
        raise ServiceRefusal(400, f"name must have at most {NAME_LENGTH_MAX} characters")
    return name


def _inputs(requests: list[_Request]) -> tuple[bytes, ...]:
    return tuple(json_object(f"requests[{place}].input", each.input) for place, each in enumerate(requests))
