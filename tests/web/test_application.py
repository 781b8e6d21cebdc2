"""Routes side by side in one application."""

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from orchestrator.web.application import listener_application
from orchestrator.web.webhook_routes import Webhooks
from tests.web.requests import BODY, KEY, Sink, StillClock, hook

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


async def page(_request: Request) -> Response:
    return PlainTextResponse("a page")


@pytest.fixture
def client() -> httpx.AsyncClient:
    webhooks = Webhooks(key=KEY, sink=Sink(), clock=StillClock())
    app = listener_application(webhooks, Route("/page", page), Mount("/pages", routes=[Route("/one", page)]))
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://listener")


async def test_webhooks_and_pages_stand_side_by_side(client: httpx.AsyncClient) -> None:
    assert (await client.post(hook(), content=BODY)).status_code == 200
    assert (await client.get("/page")).text == "a page"
    assert (await client.get("/pages/one")).text == "a page"


@pytest.mark.parametrize("path", ["/", "/page/", "/pages", "/other", "/hooks/x"])
async def test_what_no_route_takes_is_an_empty_404_and_never_a_redirect(client: httpx.AsyncClient, path: str) -> None:
    response = await client.get(path)

    assert (response.status_code, response.content) == (404, b"")
    assert dict(response.headers) == {"content-length": "0", "connection": "close"}
