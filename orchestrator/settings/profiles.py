"""What the configuration file says of an account, in a table of its own: `[profile.work]`."""

from collections.abc import Mapping
from typing import Final

from orchestrator.core.service.profiles import parse_profile, profile_of
from orchestrator.core.service.row_variables import OwnKeys
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.parsers import names
from orchestrator.settings.setting import Setting
from orchestrator.settings.value_types import parsed

PROFILE: Final[Setting[str]] = Setting(
    "profile",
    parsed("NAME", parse_profile),
    "The [account](#several-accounts) that is meant: its key and its addresses stand in `[profile.NAME]` of the"
    " configuration file. A run stays with the one that it was begun with.",
    default="none: the key is that of the environment",
    panel="Service",
)
KEY: Final[Setting[str]] = Setting(
    "key",
    parsed("env:NAME", names.parse_variable),
    "The variable that holds the account's API key; the key itself stands in no file.",
    default="required",
    has_flag=False,
)


def words_for(place: str) -> list[str]:
    """The words of a command line that choose the account whose what is at `place` is."""
    profile = profile_of(place)
    return [] if profile is None else PROFILE.words(profile)


def whose(place: str) -> str:
    """Whose what is at `place` is, and how a command is told."""
    profile = profile_of(place)
    if profile is None:
        return f"was begun without a profile: leave {PROFILE} and its variable out"
    return f"belongs to the profile {profile}: add {PROFILE} {profile}"


def own_keys(
    connection: ConnectionSettings, environ: Mapping[str, str], others: frozenset[str] = frozenset()
) -> OwnKeys:
    """What must not leave for a row; `others` are more variables that hold a secret of ours."""
    named = {key.removeprefix("env:") for key in connection.keys.values() if key.startswith("env:")}
    values = {connection.api_key, *(connection.key_for(url, environ) for url in connection.keys)}
    return OwnKeys(names=connection.key_variables | others | named, values=frozenset(values - {""}))
