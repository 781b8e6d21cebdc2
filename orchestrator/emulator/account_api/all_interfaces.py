"""The interfaces to the account, joined: REST v1 and v2, GraphQL."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.routing import Route

from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account_api.catalog_routes import catalog_routes
from orchestrator.emulator.account_api.pod_events import PodEvents
from orchestrator.emulator.account_api.pod_routes import PodApi
from orchestrator.emulator.account_api.rest_v1 import AccountApi
from orchestrator.emulator.account_api.rest_v2 import RestV2
from orchestrator.emulator.account_api.rest_v2_account import AccountV2Api
from orchestrator.emulator.account_api.retired_interfaces import retired_routes
from orchestrator.emulator.account_api.serverless_routes import ServerlessApi
from orchestrator.emulator.contract.callers import CallerAccess
from orchestrator.emulator.contract.paging import PAGE_MAX, Pages
from orchestrator.emulator.http.account_gate import AccountGate
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.not_found import UnservedAnswer, UnservedCalls

if TYPE_CHECKING:
    from orchestrator.emulator.account_api.graphql import GraphQLApi


class AccountInterfaces:
    """What is asked of `account`. `without` is as in `retired_routes`, `strict` has what the service was seen to refuse
    be refused also where the contract is silent.
    """

    def __init__(
        self,
        account: Account,
        access: CallerAccess,
        delivery: AnswerDelivery,
        *,
        page_size: int = PAGE_MAX,
        without: Mapping[str, int] | None = None,
        strict: bool = False,
    ) -> None:
        self._account = account
        self._notes = UnservedCalls()
        self.unserved = UnservedAnswer(access, delivery, self._notes)
        """What answers whatever no route takes."""

        self._strict = strict
        api = AccountApi(account, access, delivery, documents=self._documents)
        rest, pods = (RestV2(access, delivery, account.rng, Pages(page_size)) for _ in range(2))
        self.fronts: Mapping[str, AccountGate] = {
            "pods": pods.front,
            "rest": api.rest,
            "rest_v2": rest.front,
            "graphql": api.graphql,
        }
        self.routes: list[Route] = [
            *retired_routes(without or {}),
            *api.routes(),
            *ServerlessApi(rest, account).routes(),
            *AccountV2Api(rest, account).routes(),
            *catalog_routes(rest),
            *PodApi(pods, account.pods).routes(),
            *PodEvents(account.pods, delivery.clock).routes(),
        ]
        """Of all interfaces, but for those that the service is without."""

    def _documents(self) -> "GraphQLApi":
        """Imported by the first request: the parser costs every run on the embedded emulator its time otherwise."""
        from orchestrator.emulator.account_api.graphql import GraphQLApi  # noqa: PLC0415

        return GraphQLApi(self._account, self._notes, strict=self._strict)
