"""The account in programs without an event loop: the same calls, blocking: each waits for its end.

Nothing but names is written a second time: a call has the parameters, the explanation, the result and the errors of the
one of `Account`, for type checkers, too. A loop of its own runs in a thread of its own, so it works beside a loop, too,
as in a notebook.
"""

import functools
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypedDict, TypeVar, Unpack

import httpx
from anyio.from_thread import BlockingPortal, start_blocking_portal

from orchestrator.account.account import Account
from orchestrator.account.endpoints.endpoints import Endpoints
from orchestrator.account.pods.pods import Pods
from orchestrator.account.templates.secrets import Secrets
from orchestrator.account.templates.templates import Templates
from orchestrator.client import Service
from orchestrator.core.limits.ratelimit_headers import Window
from orchestrator.core.service.account_interfaces import Interface
from orchestrator.errors import UsageError
from orchestrator.settings.words_and_defaults import SERVERLESS_URL_DEFAULT, KeyPlace

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


class AccountOptions(TypedDict, total=False):
    """What `Account` takes beside the service."""

    base_url: str
    team_id: str | None
    rest_url: str
    graphql_url: str
    graphql_key: KeyPlace
    interface: Interface


class BlockingPart(Generic[T]):
    """A part of the account, whose methods wait for their end."""

    def __init__(self, part: T, portal: BlockingPortal) -> None:
        self.part = part
        """The same with `await`, for the loop behind this."""

        self.portal = portal

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.part!r})"


class BlockingMethod(Generic[P, R]):
    """A method of `BlockingPart` that waits for the end of `method`, which its part has."""

    def __init__(self, method: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]) -> None:
        self._method = method

    def __get__(self, of: BlockingPart[Any], owner: object = None) -> Callable[P, R]:
        method: Callable[P, Coroutine[Any, Any, R]] = getattr(of.part, self._method.__name__)

        @functools.wraps(method)
        def wait(*arguments: P.args, **named: P.kwargs) -> R:
            result: R = of.portal.call(functools.partial(method, *arguments, **named))
            return result

        return wait


class BlockingPods(BlockingPart[Pods]):
    """As `Account.pods`."""

    list = BlockingMethod(Pods.list)
    show = BlockingMethod(Pods.show)
    create = BlockingMethod(Pods.create)
    modify = BlockingMethod(Pods.modify)
    delete = BlockingMethod(Pods.delete)
    logs = BlockingMethod(Pods.logs)
    start = BlockingMethod(Pods.start)
    stop = BlockingMethod(Pods.stop)
    restart = BlockingMethod(Pods.restart)
    terminate = BlockingMethod(Pods.terminate)

    @property
    def windows(self) -> tuple[Window, ...]:
        """As `Pods.windows`."""
        return self.part.windows


class BlockingEndpoints(BlockingPart[Endpoints]):
    """As `Account.endpoints`."""

    list = BlockingMethod(Endpoints.list)
    show = BlockingMethod(Endpoints.show)
    create = BlockingMethod(Endpoints.create)
    update = BlockingMethod(Endpoints.update)
    delete = BlockingMethod(Endpoints.delete)
    workers = BlockingMethod(Endpoints.workers)
    logs = BlockingMethod(Endpoints.logs)


class BlockingTemplates(BlockingPart[Templates]):
    """As `Account.templates`."""

    list = BlockingMethod(Templates.list)
    show = BlockingMethod(Templates.show)
    save = BlockingMethod(Templates.save)
    delete = BlockingMethod(Templates.delete)


class BlockingSecrets(BlockingPart[Secrets]):
    """As `Account.secrets`."""

    list = BlockingMethod(Secrets.list)
    create = BlockingMethod(Secrets.create)
    rotate = BlockingMethod(Secrets.rotate)
    delete = BlockingMethod(Secrets.delete)


class BlockingAccount:
    """An `Account` for programs that block: `pods`, `endpoints`, `templates` and `secrets` as there, without `await`.

    `api_key` is the account's; `serverless_url` and `transport` are as with `Service`, and `where` whatever else
    `Account` takes. Callbacks (`watch`, `waiting`, `tell`) are called in the thread of the loop. Ctrl-C ends a call at
    once; what it has sent may have taken effect. Raises as `Service` and `Account`.

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
        **where: Unpack[AccountOptions],
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

    @property
    def pods(self) -> BlockingPods:
        """Those of the team, if there is one."""
        return BlockingPods(self._account.pods, self._opened("pods"))

    @property
    def endpoints(self) -> BlockingEndpoints:
        """To create, change and delete them."""
        return BlockingEndpoints(self._account.endpoints, self._opened("endpoints"))

    @property
    def templates(self) -> BlockingTemplates:
        """What pods and workers start from."""
        return BlockingTemplates(self._account.templates, self._opened("templates"))

    @property
    def secrets(self) -> BlockingSecrets:
        """Without their values."""
        return BlockingSecrets(self._account.secrets, self._opened("secrets"))

    def on_wait(self, notify: Callable[[str, float], None] | None) -> None:
        """As `Account.on_wait`; `notify` is called in the thread of the loop."""
        self._account.on_wait(notify)

    def _opened(self, part: str) -> BlockingPortal:
        if self._portal is None:
            raise UsageError(f"with BlockingAccount(...) as account: account.{part} is for the block")
        return self._portal


def _served(portal: BlockingPortal, account: Account) -> AbstractContextManager[Service]:
    """Closes the connections in the loop that has opened them."""
    return portal.wrap_async_context_manager(account.service)
