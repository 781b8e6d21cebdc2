"""The account in programs without an event loop: the same calls, each of which waits for its end.

Nothing is written a second time: every method of a part of `Account` is there under its name, with its parameters, what
it returns and what it raises. A loop of its own runs in a thread of its own, so it works beside a loop, too, as in a
notebook.
"""

import functools
import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from orchestrator.account.account import Account
from orchestrator.client import Service
from orchestrator.errors import UsageError
from orchestrator.settings import SERVERLESS_URL_DEFAULT

T = TypeVar("T")


class Blocking(Generic[T]):
    """A part of the account, whose methods wait for their end."""

    def __init__(self, part: T, portal: BlockingPortal) -> None:
        self._part = part
        self._portal = portal

    def __repr__(self) -> str:
        return f"Blocking({self._part!r})"

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._part) if not name.startswith("_")]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        member = getattr(self._part, name)
        return self._waiting(member) if inspect.iscoroutinefunction(member) else member

    def _waiting(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def wait(*arguments: Any, **named: Any) -> Any:
            return self._portal.call(functools.partial(method, *arguments, **named))

        return wait


class BlockingAccount:
    """An `Account` for programs that block: `pods`, `endpoints`, `templates` and `secrets` as there, without `await`.

    `api_key` is the account's; `serverless_url` and `transport` are as with `Service`, and `where` whatever else
    `Account` takes. Callbacks (`watch`, `waiting`) are called in the thread of the loop. Ctrl-C ends a call at once;
    what it has sent may have taken effect. Raises as `Service` and `Account`.

        with BlockingAccount(os.environ["ORCHESTRATOR_API_KEY"]) as account:
            for pod in account.pods.list():
                print(pod.name, pod.status)
    """

    def __init__(
        self,
        api_key: str,
        *,
        serverless_url: str = SERVERLESS_URL_DEFAULT,
        transport: httpx.AsyncBaseTransport | None = None,
        **where: Any,
    ) -> None:
        self._account = Account(Service(serverless_url, api_key, transport=transport), **where)
        self._open = ExitStack()
        self._portal: BlockingPortal | None = None

    def __repr__(self) -> str:
        return f"Blocking{self._account!r}"

    def __enter__(self) -> Self:
        if self._portal is not None:
            raise UsageError("this BlockingAccount is open already")
        with ExitStack() as opening:
            portal = opening.enter_context(start_blocking_portal())
            opening.enter_context(_served(portal, self._account))
            self._open = opening.pop_all()
        self._portal = portal
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal = None
        self._open.__exit__(kind, error, trace)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        part = getattr(self._account, name)
        if self._portal is None:
            raise UsageError(f"with BlockingAccount(...) as account: account.{name} is for the block")
        return Blocking(part, self._portal)


def _served(portal: BlockingPortal, account: Account) -> AbstractContextManager[Service]:
    """Closes the connections in the loop that has opened them."""
    return portal.wrap_async_context_manager(account.service)
