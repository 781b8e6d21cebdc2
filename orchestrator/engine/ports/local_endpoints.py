"""`local:` endpoints: a function of the user's in place of an endpoint of the service.

The emulator that runs it is in `embedded`, which is loaded for such runs only: it
would be an eighth of every other start.
"""

import os
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from orchestrator.core.pools.member import MemberSettings, is_member
from orchestrator.errors import UsageError
from orchestrator.settings.parsers.name_parsers import home_order
from orchestrator.settings.words_and_defaults import LOCAL

LOCAL_URL: Final = "http://emulator.local"
"""What stands for the service's URL where the service is part of the process."""

LOCAL_KEY: Final = "local"
LOCAL_ENDPOINT: Final = "local"

LOCAL_WORKERS: Final = 8
"""So many executions of a function there are at once."""


def is_local(endpoint: str) -> bool:
    """Whether `endpoint` names a function of the user's rather than an endpoint of the service."""
    return endpoint.startswith(LOCAL)


def absolute_endpoint(endpoint: str) -> str:
    """A `local:` endpoint with the full path of its file, so that it is the same from every folder."""
    file, colon, function = endpoint.removeprefix(LOCAL).rpartition(":")
    if not colon or not file or not function:
        raise UsageError(f"<setting endpoint={endpoint}>: write local:FILE.py:FUNCTION")
    return f"{LOCAL}{os.path.realpath(file)}:{function}"


def absolute_members(members: Sequence[MemberSettings]) -> tuple[MemberSettings, ...]:
    """The members of a pool; those that are `local:` ones with the full paths of their files. Raises `UsageError`."""
    return tuple(
        replace(each, endpoint=absolute_endpoint(each.endpoint)) if is_local(each.endpoint) else each
        for each in members
    )


def stays(endpoint: str, members: Sequence[MemberSettings]) -> bool:
    """Whether a run that is at `endpoint` stays there, whose pool are these `members`: it is one of them, and none is
    at the service where it is not itself.
    """
    return is_member(endpoint, members) and home_order(endpoint) <= min(home_order(each.endpoint) for each in members)
