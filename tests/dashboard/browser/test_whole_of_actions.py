"""Each action once in a browser, on runs and pipelines that a process works on: asked for where its button is, confirmed,
and done. It is the last file here: what the others look at is changed by it.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.dashboard.browser.site import Site
from tests.dashboard.browser.test_in_a_browser import ask as ask_ledger
from tests.dashboard.browser.test_two_tabs import ask, confirm
from tests.dashboard.showcase import Showcase, until

pytestmark = [pytest.mark.slow, pytest.mark.system]

DONE_MS: Final = 60_000


class Act(NamedTuple):
    """What is pressed on which page, and what is filled in."""

    page: str
    """`{run}`, `{endpoint}`, `{pipeline}`, `{flow}`, which has failed, `{whole}`, which has not, and `{long}`, which is at
    work, are numbers.
    """

    button: str
    verb: str
    given: Mapping[str, str] = {}


ACTS: Final = (
    Act("/runs/{run}", "Let it go on", "continue"),
    Act("/runs/{run}", "Priority", "priority", {"Priority": "-3"}),
    Act("/runs/{run}", "Brakes", "brakes", {"max-failures": "199"}),
    Act("/runs/{run}", "Limits", "limits-set", {"/run": "50/10"}),
    Act("/endpoints/{endpoint}", "Change limits", "limits-set", {"/run": "40/10"}),
    Act("/endpoints/{endpoint}", "Reset limits", "limits-reset"),
    Act("/runs/{run}", "Pause", "pause"),
    Act("/runs/{run}", "Continue", "continue"),
    Act("/runs/{run}/failures", "Cancel those not finished", "cancel-jobs"),
    Act("/runs/{run}/jobs?where=line%3E190+state%3Dqueued", "Cancel these", "cancel-jobs"),
    Act("/runs/{run}/failures", "Retry all", "retry"),
    Act("/runs/{run}", "Cancel", "cancel", {"To confirm it, type broken-image": "broken-image"}),
    Act("/pipelines/{pipeline}", "Pause the schedule", "schedule-pause", {"Why": "stocktaking"}),
    Act("/pipelines/{pipeline}", "Continue the schedule", "schedule-continue"),
    Act("/pipelines/{pipeline}", "Backfill", "backfill", {"From": "2026-11-03", "To": "2026-11-05"}),
    Act("/pipelines/{pipeline}", "Fire now", "fire", {"For the time": "2026-11-02"}),
    Act("/flows/{flow}", "Retry failed", "rerun"),
    Act("/flows/{whole}", "Rerun from", "rerun"),
    Act("/flows/{long}", "Pause", "pause"),
    Act("/flows/{long}", "Let it go on", "continue"),
    Act(
        "/flows/{long}", "Cancel", "cancel", {"To confirm it, type titles@20261008T031500Z": "titles@20261008T031500Z"}
    ),
    Act("/messages", "Send again", "send-again"),
)
LONG_FIRE: Final = "2026-10-08"
LONG: Final = "name LIKE 'titles@20261008%'"
LONG_ROWS: Final = 20_000


@pytest.fixture
def page(signed_in: BrowserContext) -> Iterator[Page]:
    page = signed_in.new_page()
    yield page
    page.close()


def test_each_action_is_confirmed_where_its_button_is_and_done(page: Page, site: Site, showcase: Showcase) -> None:
    rows = (f'{{"custom_id": "long-{n}", "input": {{"n": {n}}}}}\n' for n in range(LONG_ROWS))
    (showcase.folder / "inbox" / f"{LONG_FIRE}.jsonl").write_text("".join(rows))
    showcase.call("backfill", "titles", "--from", LONG_FIRE, "--to", "2026-10-09", "--yes")
    until(showcase.folder, f"SELECT count(*) FROM flows WHERE {LONG} AND state = 'running'", 1)
    numbers = {
        "run": ask_ledger(showcase, "SELECT id FROM runs WHERE name = 'broken-image'"),
        "endpoint": ask_ledger(showcase, "SELECT endpoint_id FROM runs WHERE name = 'broken-image'"),
        "pipeline": ask_ledger(showcase, "SELECT id FROM pipelines WHERE name = 'titles'"),
        "flow": ask_ledger(showcase, "SELECT max(id) FROM flows WHERE state = 'failed' AND name LIKE 'dedupe%'"),
        "whole": ask_ledger(showcase, "SELECT min(id) FROM flows WHERE state = 'succeeded' AND name LIKE 'dedupe%'"),
        "long": ask_ledger(showcase, f"SELECT id FROM flows WHERE {LONG}"),
    }
    if ask_ledger(showcase, "SELECT pause_requested FROM runs WHERE name = 'broken-image'"):
        showcase.call("unpause", "broken-image")
    for act in ACTS:
        ask(page, site.origin + act.page.format_map(numbers), re.escape(act.button))
        for label, text in act.given.items():
            page.get_by_label(label, exact=True).fill(text)
        if act.verb == "backfill":
            page.get_by_role("button", name="Only show what that does").or_(
                page.get_by_role("button", name="Count them")
            ).first.click()
        told = page.locator("main").inner_text()
        confirm(page)
        if page.get_by_role("alert").count():  # a job more has failed meanwhile: it asks again, with another count
            confirm(page)
        did = page.locator(".did")
        expect(did, message=f"{act}: {told}").to_contain_text(re.compile(rf"^\s*{act.verb}, .*: done"), timeout=DONE_MS)
