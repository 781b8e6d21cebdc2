"""Who asks for something, and by which way: what stands in the list of actions beside what was asked."""

import getpass
import os
import platform
from enum import StrEnum
from typing import Final

import msgspec


class ActionWay(StrEnum):
    """By which way people ask. The values stand in ledgers."""

    PAGE = "page"
    COMMAND = "command"
    """The command line."""

    PYTHON = "python"
    UNKNOWN = "unknown"
    """It was asked of an older program, which did not keep it."""


class Asker(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what is known of it that what is asked does not say."""

    way: ActionWay
    by: str = ""
    """A name for people; empty: that of the user, with the machine and the process."""

    form: str | None = None
    """The id of the form of a page: what it asks for is done once."""

    where: str = ""
    """The filter that was confirmed, where what is asked has none of its own."""

    count: int | None = None
    """How many jobs, or fires, people were told that it concerns."""

    @property
    def name(self) -> str:
        """Who it is, for people."""
        return self.by or this_user()


BY_COMMAND: Final = Asker(way=ActionWay.COMMAND)
BY_PYTHON: Final = Asker(way=ActionWay.PYTHON)


def this_user() -> str:
    """Who asks: user, host and process id, for people."""
    return f"{user_name()}@{platform.node()} {os.getpid()}"


def user_name() -> str:
    """As whom this process works on this machine."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a number without a name, as in containers
        return str(os.getuid())
