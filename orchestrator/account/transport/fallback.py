"""Speaks to the newest interface that the service has (REST v2, v1, GraphQL), of those that are to be tried.

The older one is asked where the newer one is not there: its collection is answered 404 or 410. That is found out when a
request is refused like that (it had no effect), and not asked again as long as the account lives.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, Protocol, TypeVar

from orchestrator.client.jobs.refusals import AnswerError, RefusedError
from orchestrator.core.service.account_interfaces import KNOWN, TITLES, Interface, Noun
from orchestrator.errors import NotSent, Unanswered, UsageError
from orchestrator.settings.words_and_defaults import BASE_URL_DEFAULT, GRAPHQL_URL_DEFAULT, REST_URL_DEFAULT

PUBLIC: Final[Mapping[Interface, str]] = {
    Interface.V2: BASE_URL_DEFAULT,
    Interface.V1: REST_URL_DEFAULT,
    Interface.GRAPHQL: GRAPHQL_URL_DEFAULT,
}
"""Where the public service has each."""

RETIRED_STATUSES: Final = frozenset({404, 410})
"""With which statuses an interface is answered that the service does not have, or no longer."""


def interfaces_elsewhere(urls: Mapping[Interface, str]) -> frozenset[Interface]:
    """The interfaces that are not at the public service's own address."""
    return frozenset(each for each, url in urls.items() if url.rstrip("/") != PUBLIC[each])


USE_V2: Final = f"use <setting interface={Interface.V2}>"


class CannotSayError(UsageError):
    """The interface has no words for what is wanted; nothing was sent."""

    def __init__(self, interface: Interface, what: str, advice: str = "") -> None:
        self.interface = interface
        others = ", ".join(each for each in TITLES if each is not interface)
        advice = advice or f"another <setting interface> may ({others})"
        super().__init__(f"{TITLES[interface]} cannot say {what}; {advice}; nothing was sent")


class InterfaceClient(Protocol):
    """What an account has, by one of the interfaces."""

    interface: Interface

    async def probe(self) -> object:
        """Asks something that costs nothing. Raises what any other question may."""
        ...


async def is_there(form: InterfaceClient) -> bool:
    """Whether the service has this interface at all."""
    try:
        await form.probe()
    except RefusedError as error:
        return error.status not in RETIRED_STATUSES
    except (AnswerError, NotSent, Unanswered):
        pass
    return True


F = TypeVar("F", bound=InterfaceClient)
T = TypeVar("T")


class InterfaceFallback(Generic[F]):
    """The forms of one noun, in the order in which they are tried. `choice` is why there are no others."""

    def __init__(self, noun: Noun, choice: Interface, forms: Sequence[F]) -> None:
        self._noun = noun
        self._choice = choice
        self._forms = tuple(forms)
        self._met = False
        """Whether the first of them has done something: it is there."""

    def __repr__(self) -> str:
        return ", ".join(map(repr, self._forms))

    async def ask(self, call: Callable[[F], Awaitable[T]]) -> T:
        """What `call` returns for the first form that is there. Raises what it raises, and `UsageError` for none."""
        if not self._forms:
            others = ", ".join(KNOWN[self._noun])
            raise UsageError(
                f"{TITLES[self._choice]} knows no {self._noun}; choose another <setting interface>: {others}"
            )
        while True:
            form = self._forms[0]
            try:
                answer = await call(form)
            except (RefusedError, CannotSayError) as error:
                is_last = len(self._forms) == 1
                if self._met or not _may_be_gone(error, is_last=is_last) or await is_there(form):
                    raise
                if is_last:
                    raise _retold(error, form.interface) from None
            else:
                self._met = self._met or form is self._forms[0]
                return answer
            self._forms = tuple(each for each in self._forms if each is not form)


def _may_be_gone(error: RefusedError | CannotSayError, *, is_last: bool) -> bool:
    """Whether the interface may not be there, so that another one, or at least another word, is called for."""
    if isinstance(error, CannotSayError):
        return not is_last
    return error.status in RETIRED_STATUSES


def _retold(error: RefusedError | CannotSayError, interface: Interface) -> RefusedError:
    """A refusal that is not about what was asked for: nothing of that kind is there."""
    assert isinstance(error, RefusedError), "who has no words for it has not been asked"
    advice = "check the URL, or choose another <setting interface>"
    return type(error)(error.doing, error.refusal, (f"there is no {TITLES[interface]} at this address", advice))
