"""Names of endpoints in the place of their ids, as programs and pipelines give them."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from orchestrator.account.run_endpoints import RunEndpoints
from orchestrator.api.flows.apply import Applied, apply
from orchestrator.api.flows.schedules import schedules_list
from orchestrator.api.python.orchestrator import Orchestrator
from orchestrator.api.python.pipeline import Pipeline, Stage
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.client import Service
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.engine.runtime.console import SilentConsole
from orchestrator.errors import StoppedError, UsageError
from orchestrator.settings.connection_settings import ConnectionSettings
from tests.api.desk import Desk, desk, numbers
from tests.simulation.world import ENDPOINT, URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

REST = "http://rest"
OURS = ConnectionSettings(serverless_url=URL, api_key="key", rest_url=REST)
LISTED = [{"id": "abc123", "name": "captions"}, {"id": "big456", "name": "large"}, {"id": "two1", "name": "twin"},
          {"id": "two2", "name": "twin"}]  # fmt: skip


class ProcessReport(SilentConsole):
    """What was warned of."""

    def __init__(self) -> None:
        self.text = ""

    def warn(self, line: str) -> None:
        self.text += f"{line}\n"


class Account:
    """An account with these endpoints, by its service; what was asked of it."""

    def __init__(self, status: int = 200) -> None:
        self.asked: list[str] = []
        self.status = status

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if request.url.path == "/v1/endpoints":
            return httpx.Response(self.status, json=LISTED)
        return httpx.Response(404)

    def in_(self, dependencies: Dependencies) -> Dependencies:
        def service(connection: ConnectionSettings, clock: Any) -> Service:
            return Service(URL, connection.api_key, clock, transport=httpx.MockTransport(self.answer))

        return msgspec.structs.replace(dependencies, service=service)


class Ids(RunEndpoints):
    """Endpoints by their names, without a service."""

    def __init__(self, ids: Mapping[str, str]) -> None:
        self.ids = ids
        self.asked: list[str] = []

    async def id_of(self, given: str) -> str:
        self.asked.append(given)
        if given not in self.ids:
            raise UsageError(f"there is no endpoint {given}")
        return self.ids[given]


class Named:
    """A program whose account has an endpoint that is called captions, and another one."""

    def __init__(self, d: Desk) -> None:
        self.ids = Ids({"captions": ENDPOINT, "large": ENDPOINT})
        self.desk = d
        self.dependencies = msgspec.structs.replace(d.dependencies, account=lambda _service, _url: self.ids)

    def orchestrator(self, **options: Any) -> Orchestrator:
        said = {"serverless_url": URL, "api_key": "key", "rest_url": REST, **options}
        return Orchestrator(self.desk.ledger, **said, _dependencies=self.dependencies)


@pytest.fixture
async def named(tmp_path: Path) -> AsyncIterator[Named]:
    async with desk(tmp_path) as d:
        yield Named(d)


async def test_a_run_is_submitted_by_the_name_of_its_endpoint_and_keeps_the_id(named: Named) -> None:
    async with named.orchestrator() as orc:
        run = await orc.submit(
            numbers(2), endpoint="captions", name="night", max_attempts=3, escalate="timed_out: endpoint large"
        )
        await run.wait()
        assert [(each.endpoint, each.run) for each in await orc.status()] == [(ENDPOINT, "night")]
        again = await orc.submit(numbers(2), endpoint="captions", name="night")
        assert (again.counts["total"], named.desk.service.paid) == (2, 2)
        settings = run._attached.run.settings
        assert [step.endpoint for rule in settings.escalate for step in rule.steps] == [ENDPOINT]
        assert [each.index async for each in orc.map("captions", numbers(1), name="mapped")] == [0]
        with pytest.raises(UsageError, match="there is no endpoint caption"):
            await orc.submit(numbers(1), endpoint="caption", name="other")
        with pytest.raises(UsageError, match="there is no endpoint nobody"):
            await run.retry(endpoint="nobody")
        assert [each.run for each in await orc.status()] == ["night", "mapped"], "nothing is made before"


async def test_what_is_an_id_or_of_an_account_that_nobody_named_is_not_looked_up(named: Named) -> None:
    names = EndpointNames(dependencies=named.dependencies, connection=OURS)
    for given in ("abc123", "local:f.py:f", "a/b"):
        assert await names.id_of(given) == given
    elsewhere = msgspec.structs.replace(OURS, rest_url=ConnectionSettings().rest_url)
    assert await EndpointNames(dependencies=named.dependencies, connection=elsewhere).id_of("captions") == "captions"
    assert named.ids.asked == []
    assert [await names.id_of("captions"), await names.id_of("captions")] == [ENDPOINT, ENDPOINT]
    assert named.ids.asked == ["captions"], "once"


PIPELINE = """name = "nightly"
input = "in.jsonl"
keep = "90d"
[stage.caption]
endpoint = "captions"
max-attempts = 3
escalate = ["timed_out: endpoint large"]
[stage.embed]
endpoint = "local:f.py:f"
"""


async def applied(
    named: Named, account: Account, *, check: bool = False, text: str = PIPELINE
) -> tuple[Applied, ProcessReport]:
    file, said = named.desk.folder / "nightly.toml", ProcessReport()
    file.write_text(text)
    given = account.in_(named.desk.dependencies)
    [found] = await apply([file], named.desk.ledger, check=check, console=said, dependencies=given, connection=OURS)
    return found, said


async def test_a_pipeline_names_endpoints_and_the_ids_are_recorded_and_shown(named: Named) -> None:
    account = Account()
    checked, _ = await applied(named, account, check=True)
    assert checked.endpoints["caption"] == "abc123"
    assert account.asked.count("/v1/endpoints") == 1 + ("/v2/serverless" in account.asked), account.asked

    found, _ = await applied(named, account)
    same, _ = await applied(named, account, text=PIPELINE.replace("captions", "abc123").replace("large", "big456"))
    assert (found.version, same.outcome) == (1, "unchanged")
    [status] = await schedules_list(named.desk.ledger, named.desk.dependencies)
    assert status.endpoints["caption"] == "abc123"


@pytest.mark.parametrize(
    ("name", "status", "kind", "said"),
    [
        ("twin", 200, UsageError, "stage.caption: 2 endpoints are called twin: two1, two2"),
        ("caption", 200, UsageError, "stage.caption: there is no endpoint caption; did you mean captions"),
        ("captions", 403, StoppedError, "the endpoint captions: .*403"),
    ],
)
async def test_a_name_in_a_pipeline_that_leads_nowhere_is_refused(
    named: Named, name: str, status: int, kind: type[Exception], said: str
) -> None:
    with pytest.raises(kind, match=said):
        await applied(named, Account(status), check=True, text=PIPELINE.replace("captions", name))


async def test_without_a_key_a_name_is_taken_for_an_id_and_that_is_said(named: Named) -> None:
    file, said = named.desk.folder / "nightly.toml", ProcessReport()
    file.write_text(PIPELINE)
    [found] = await apply([file], named.desk.ledger, check=True, console=said, dependencies=named.dependencies)
    assert found.endpoints["caption"] == "captions"
    assert "the endpoint captions is taken for an id: there is no API key" in said.text


async def test_a_program_s_pipeline_names_endpoints_too(named: Named) -> None:
    async with named.orchestrator() as orc:
        stages = [Stage("caption", endpoint="captions"), Stage("more", endpoint="large", serverless_url="http://other")]
        found = await orc.apply(Pipeline("nightly", input="in.jsonl", stages=stages))
    assert found.endpoints == {"caption": ENDPOINT, "more": "large"}, "another service is asked by its own account"
