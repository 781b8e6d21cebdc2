"""The input of one job, as it is given on the command line: a file, standard input or the JSON text itself.

The rule is that of a line of a run's input file: an object with an object `input` in it is a whole job request, every
other object is the input. Secrets in `s3Config` are named (`env:NAME`), never written down.
"""

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.cli.output import streams
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.service.s3_config import S3Config, UnusableVariables, decode_s3_config
from orchestrator.core.text.durations import Policy, decode_policy, merge_policies
from orchestrator.errors import UsageError
from orchestrator.formats.text.json_text import json_kind, json_problem
from orchestrator.settings.words_and_defaults import STANDARD_INPUT
from orchestrator.units import MIB

_BYTES_MAX: Final = 32 * MIB
"""What is read of a file: more than any request may have, so that the check of the request's size has its say."""

_KEYS: Final = ("input", "policy", "s3Config", "webhook")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class JobInput(msgspec.Struct, frozen=True, kw_only=True):
    """What one job request says. `s3_config` holds secrets: it is sent and shown nowhere."""

    input: bytes
    policy: Policy
    webhook: str | None = None
    s3_config: S3Config | None = None

    def __repr__(self) -> str:
        return f"JobInput(input={self.input[:80]!r}, policy={self.policy!r})"


def read_job_input(given: str, *, policy: Policy, webhook: str | None, variables: RowVariables) -> JobInput:
    """The job that `--input` describes; what the flags say (`policy`, `webhook`) wins. Raises `UsageError`."""
    text = object_text(given)
    members = _members.decode(text)
    if not bytes(members.get("input", b"")).startswith(b"{"):
        if "input" in members and not {"policy", "s3Config", "webhook"}.isdisjoint(members):
            raise UsageError(f"--input: its input must be an object, not {json_kind(bytes(members['input']))}")
        return JobInput(input=text, policy=policy, webhook=webhook)
    try:
        return _job_request(members, policy, webhook, variables)
    except UnusableVariables as error:
        raise UsageError(f"--input: {error.with_advice}") from None
    except ValueError as error:
        raise UsageError(f"--input: {error}") from None


def _job_request(
    members: Mapping[str, msgspec.Raw], policy: Policy, webhook: str | None, variables: RowVariables
) -> JobInput:
    for key in members:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"a job request takes {', '.join(_KEYS)}"
            raise ValueError(f'unknown key "{key:.40}" beside input; {advice}')
    given = {key: bytes(raw) for key, raw in members.items() if bytes(raw) != b"null"}
    if "policy" in given:
        policy = merge_policies(decode_policy(given["policy"]), policy)
    if webhook is None and "webhook" in given:
        if not given["webhook"].startswith(b'"'):
            raise ValueError(f"its webhook must be a URL, not {json_kind(given['webhook'])}")
        webhook = msgspec.json.decode(given["webhook"], type=str)
    s3_config = None
    if "s3Config" in given:
        s3_config = variables.resolve(decode_s3_config(given["s3Config"]))
    return JobInput(input=given["input"], policy=policy, webhook=webhook, s3_config=s3_config)


def object_text(given: str) -> bytes:
    """The JSON object that `--input` names or is, as it was written. Raises `UsageError`.

    What begins with a bracket is JSON text; a file of such a name is written `./{...`.
    """
    text = _read(given).removeprefix(_BYTE_ORDER_MARK).strip()
    if not text:
        raise UsageError("--input: there is nothing in it; give a JSON object")
    if problem := json_problem(text):
        raise UsageError(f"--input: {problem}")
    if not text.startswith(b"{"):
        raise UsageError(f"--input: it must be a JSON object, not {json_kind(text)}")
    return text


def is_typed(given: str) -> bool:
    """Whether it is the JSON text itself rather than the name of a file."""
    return given.lstrip().startswith(("{", "["))


def _read(given: str) -> bytes:
    if is_typed(given):
        return given.encode("utf-8", "surrogateescape")
    try:
        if given == STANDARD_INPUT:
            with streams.interruptible():
                return sys.stdin.buffer.read(_BYTES_MAX)
        with Path(given).open("rb") as file:
            return file.read(_BYTES_MAX)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "this is no file name"
        raise UsageError(f"--input: {given:.200} cannot be read ({reason})") from None
