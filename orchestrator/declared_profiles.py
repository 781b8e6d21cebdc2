"""What the configuration file says of an account, in a table of its own: `[profile.work]`."""

from typing import Final

from orchestrator import written
from orchestrator.core.profiles import parse_profile, profile_of
from orchestrator.declaration import Setting, parsed

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
    parsed("env:NAME", written.variable),
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
