"""Names in the place of ids: whoever types one need not look the id up first.

An id is used as it stands. What does not look like one is looked up among the names that the account has now, and so is
what looks like one, but is none there. Names need not be unique; one that several have is an error with their ids.
"""

import difflib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final, Protocol, TypeVar

from orchestrator.client.jobs.refusals import RefusedError
from orchestrator.core.text.name_match import looks_like_an_id
from orchestrator.errors import UsageError

T = TypeVar("T")

_NOT_FOUND: Final = 404


class UnknownNameError(UsageError):
    """Nothing has that name, or that id."""


class Named(Protocol):
    """What has an id and a name: a pod, an endpoint, a template, a secret."""

    @property
    def id(self) -> str | None: ...

    @property
    def name(self) -> str: ...


def id_of(kind: str, given: str, among: Iterable[Named]) -> str:
    """The id of the one that has the id or the name `given`. Raises `UsageError` where there are several, and
    `UnknownNameError` where there is none.

    `kind` is what they are, for the message.
    """
    known = tuple(among)
    named = [each.id for each in known if given in (each.id, each.name) and each.id is not None]
    if given in named or len(named) == 1:
        return given if given in named else named[0]
    if named:
        raise UsageError(
            f"{len(named)} {kind}s are called {given:.80}: {', '.join(named)}; say which, by its id. Nothing was sent"
        )
    near = difflib.get_close_matches(given, [each.name for each in known], n=1)
    advice = f"did you mean {near[0]}?" if near else f"the account has {_told(kind, known)}"
    raise UnknownNameError(f"there is no {kind} {given:.80}; {advice}")


async def by_name(
    kind: str, given: str, call: Callable[[str], Awaitable[T]], known: Callable[[], Awaitable[Sequence[Named]]]
) -> T:
    """What `call` returns for the id of `given`, which is one, or a name among those that `known` fetches.

    Raises what either does, and `UsageError` as `id_of`.
    """
    if not looks_like_an_id(given):
        return await call(id_of(kind, given, await known()))
    try:
        return await call(given)
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        found = None
        with suppress(RefusedError, UsageError):
            found = id_of(kind, given, await known())
        if found is None or found == given:
            raise
    return await call(found)


def _told(kind: str, known: Sequence[Named]) -> str:
    if not known:
        return f"no {kind}s"
    some = sorted({each.name for each in known})
    more = len(some) - _TOLD_MAX
    return f"{', '.join(some[:_TOLD_MAX])}{f' and {more} more' if more > 0 else ''}"


_TOLD_MAX: Final = 10
