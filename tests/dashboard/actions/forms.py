"""A person who fills in the forms of a dashboard, and what is in the ledger for tests of them."""

import html
import re
from collections.abc import Mapping
from pathlib import Path

from orchestrator.core.jobs.lifecycle import State
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import ActionRow
from orchestrator.ledger.runs.runs import Run
from tests.dashboard.harness import Answer, Dashboard
from tests.ledger.ledgers import a_run, brought_to, opened
from tests.simulation.clock import VirtualClock


def fields_of(page: Answer) -> dict[str, str]:
    """What the form of a confirmation carries, as it stands, and the button that confirms it."""
    found = re.search(r'<form[^>]* class="card confirm">.*?</form>', page.html, re.DOTALL)
    assert found is not None, page.text
    fields: dict[str, str] = {}
    for tag in re.findall(r"<(?:input|button)[^>]*>", found[0]):
        given = {name: html.unescape(value) for name, value in re.findall(r'(\w+)="([^"]*)"', tag)}
        if "name" in given and (given.get("type") != "checkbox" or " checked" in tag):
            fields[given["name"]] = given["value"]
    for name, options in re.findall(r'<select[^>]* name="(\w+)">(.*?)</select>', found[0], re.DOTALL):
        [chosen] = re.findall(r"<option selected>([^<]*)<", options)
        fields[name] = html.unescape(chosen)
    return fields


async def confirmed(site: Dashboard, path: str, fields: Mapping[str, str] | None = None, **given: str) -> Answer:
    """Asks, and confirms what is shown, having filled in what is `given`."""
    page = await site.post(path, {"back": "/runs", **(fields or {})})
    assert page.status == 200, page.text
    return await site.post(path, fields_of(page) | given)


async def actions_in(path: Path, clock: VirtualClock) -> list[ActionRow]:
    """All actions of the ledger, the first one first."""
    async with opened(path, clock=clock) as ledger:
        return (await ledger.actions.page(most=99))[::-1]


async def failed_run(ledger: Ledger, jobs: int = 3, *, name: str = "night") -> Run:
    """A run of which all jobs have failed but the last, which is queued."""
    run = await a_run(ledger, jobs + 1, name=name)
    for job in range(1, jobs + 1):
        await brought_to(ledger, State.FAILED, ledger.now(), job=job)
    return run
