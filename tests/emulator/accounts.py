"""An emulated account for tests: its routes alone, driven in-process by a client of ours or by a bare one."""

import random
from collections.abc import Mapping
from typing import Any

import httpx

from orchestrator.clock import Clock
from orchestrator.emulator.account.account import Account
from orchestrator.emulator.account_api.all_interfaces import AccountInterfaces
from orchestrator.emulator.contract.callers import Caller, CallerAccess
from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.emulator.http.delivery import AnswerDelivery
from orchestrator.emulator.http.wire import Wire
from orchestrator.emulator.job_api.routes import RouteTable
from tests.simulation.clock import EPOCH_AT

KEY = "rpa_key+with/odd=signs"

GRAPHQL_URL = "http://emulator/graphql"


class Stopped:
    """A clock that a test moves."""

    def __init__(self, at: int = EPOCH_AT) -> None:
        self.at = at

    def now(self) -> int:
        return self.at


class EmulatedAccount:
    """An account, and the routes of its interfaces."""

    def __init__(self, clock: Clock, **settings: Any) -> None:
        rng = random.Random(1)
        own = {name: settings.pop(name) for name in ("page_size", "without", "strict") if name in settings}
        account = Account(rng, **settings)
        delivery = AnswerDelivery(Wire(FaultDice(Faults(), rng)), clock)
        self.templates, self.secrets, self.endpoints = account.templates, account.secrets, account.endpoints
        self.routes = AccountInterfaces(account, CallerAccess({KEY: Caller()}), delivery, **own).routes


def account(clock: Clock | None = None, **settings: Any) -> EmulatedAccount:
    return EmulatedAccount(clock or Stopped(), **settings)


def carrier(account: EmulatedAccount) -> httpx.ASGITransport:
    return httpx.ASGITransport(RouteTable(account.routes))


class Bare:
    """Requests as anybody may write them."""

    def __init__(self, account: EmulatedAccount) -> None:
        self.http = httpx.AsyncClient(transport=carrier(account), base_url="http://emulator")

    async def graphql(self, query: str, **variables: Any) -> tuple[int, Mapping[str, Any]]:
        body = {"query": query, "variables": variables} if variables else {"query": query}
        answer = await self.http.post("/graphql", params={"api_key": KEY}, json=body)
        return answer.status_code, answer.json()

    async def data(self, query: str, **variables: Any) -> Mapping[str, Any]:
        status, answer = await self.graphql(query, **variables)
        assert (status, answer.get("errors")) == (200, None), answer
        data: Mapping[str, Any] = answer["data"]
        return data

    async def reason(self, query: str, **variables: Any) -> str:
        """The first message of a refusal."""
        _, answer = await self.graphql(query, **variables)
        message: str = answer["errors"][0]["message"]
        return message

    async def rest(self, method: str, path: str, json: Any = None) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {KEY}"}
        answer = await self.http.request(method, f"/v1{path}", json=json, headers=headers)
        return answer.status_code, answer.json() if answer.content else None


SAVE = (
    """mutation($input: SaveTemplateInput) { saveTemplate(input: $input) { id name isServerless env { key value } } }"""
)

TEMPLATE = {"name": "t", "imageName": "me/worker:1", "containerDiskInGb": 5, "volumeInGb": 0, "isServerless": True}
