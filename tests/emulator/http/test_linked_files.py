"""Files to which outputs may link, and what goes wrong with them where somebody wants that."""

import httpx
import pytest

from orchestrator.emulator.contract.answers import ConnectionCut
from orchestrator.emulator.contract.faults import Faults
from orchestrator.emulator.server import Emulator
from tests.emulator.emulators import emulator

pytestmark = pytest.mark.anyio


async def fetched(subject: Emulator, name: str) -> httpx.Response:
    transport = httpx.ASGITransport(subject.app)
    async with httpx.AsyncClient(transport=transport, base_url="http://emulator") as client:
        return await client.get(f"/emulator/files/{name}")


async def test_a_file_is_the_same_by_its_name() -> None:
    subject = emulator()
    first, again, other = [await fetched(subject, name) for name in ("a/cat.png", "a/cat.png", "dog.png")]
    assert (first.status_code, len(first.content)) == (200, 100_000)
    assert first.content == again.content != other.content


async def test_a_page_of_html_comes_with_a_200() -> None:
    page = await fetched(emulator(faults=Faults(page_link=1.0)), "cat.png")
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")


async def test_a_link_that_has_expired_is_answered_403() -> None:
    assert (await fetched(emulator(faults=Faults(gone_link=1.0)), "cat.png")).status_code == 403


async def test_an_answer_ends_in_the_middle() -> None:
    subject = emulator(faults=Faults(cut_link=1.0))
    with pytest.raises(ConnectionCut):
        await fetched(subject, "cat.png")
