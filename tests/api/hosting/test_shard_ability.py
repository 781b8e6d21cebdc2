"""A process serves what it has all for: keys, variables, files; what it lacks is left to those that have it, and shown."""

from pathlib import Path

import anyio
import pytest

from orchestrator.api.foreground.serve import serve
from orchestrator.api.inspect.processes import processes
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.ownership.shard_bids import KEEPERS, LEFT_OVER_US, LEFT_TO_ANY_US
from orchestrator.errors import UsageError
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.command_requests import ServeRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.words_and_defaults import Pinned
from orchestrator.units import SECOND_US
from tests.api.hosting.site import ONE, OTHER, SOON_S, Site
from tests.ledger.pipelines import a_pipeline, applied

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

NEEDS_TOKEN = RunSettings(allow_env=("TOKEN", "S3_*"))
HEARD_S = 7.0
"""So often each says how it stands."""

LEFT_S = LEFT_TO_ANY_US / SECOND_US


HAS_ALL = {"TOKEN": "t", "S3_ID": "i"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has", "told"),
    [({}, "TOKEN and S3_* are not set"), ({"TOKEN": "t", "S3_ID": "", "MY_S3_ID": "i"}, "S3_* is not set")],
)
async def test_what_needs_a_variable_is_served_where_that_is_set_and_the_rest_is_shared_as_ever(
    site: Site, has: dict[str, str], told: str
) -> None:
    site.environ["a"], site.environ["b"] = has, HAS_ALL
    runs = [await site.run_at(ONE, NEEDS_TOKEN), await site.run_at(OTHER)]
    async with site.serving("a", "b") as machines:
        for run in runs:
            await site.until(run, State.SUCCEEDED)
        assert site.senders(ONE) == ["b"]
        [a] = [each for each in machines if each.name == "a"]
        assert f"{ONE}: left to other processes where these can: {told}" in a.heard.lines


@pytest.mark.slow
async def test_it_goes_over_to_one_that_has_all_for_it_once_that_comes_and_nothing_is_sent_twice(site: Site) -> None:
    site.environ["b"] = HAS_ALL
    run = await site.run_at(ONE, NEEDS_TOKEN, jobs=60)
    async with site.serving("a"):
        await site.until(run, State.SUCCEEDED, 5, within_s=LEFT_S)
        async with site.serving("b"):
            await site.until(run, State.SUCCEEDED, 60)
        assert site.senders(ONE) == ["a", "b"]
    assert site.service.paid == 60


@pytest.mark.slow
async def test_where_nobody_has_all_for_it_that_is_shown_and_one_of_them_has_it_all_the_same(site: Site) -> None:
    gone = Pinned(ref="/nowhere/check.py:is_good", sha256="0" * 64)
    run = await site.run_at(ONE, RunSettings(check=gone))
    async with site.serving("a", "b"):
        await anyio.sleep(LEFT_S / 2)
        assert (await site.shards())[run.endpoint_id] is None
        await anyio.sleep(LEFT_S)
        assert (await site.shards())[run.endpoint_id] in {"a", "b"}
        found = await processes(parse_ledger_url(site.url), site.dependencies("people"))
        [shown] = found.unservable
        assert shown.endpoints == (ONE,)
        assert [each.process for each in shown.lacks] == [each.process for each in found.processes]
        assert all("/nowhere/check.py" in each.why for each in shown.lacks)
        assert shown.text in list(found.remarks)
        owner = (await site.shards())[run.endpoint_id]
        await anyio.sleep(5 * LEFT_S)
        assert (await site.shards())[run.endpoint_id] == owner, "it stays there"
    assert site.sent == []


async def test_schedules_and_flows_are_left_to_others_where_the_folder_of_a_pipeline_is_not_there(site: Site) -> None:
    async with site.ledger() as ledger:
        await applied(ledger, a_pipeline(), now=site.clock.now())
    async with site.serving("a"):
        await anyio.sleep(SOON_S)
        assert (await site.shards())[KEEPERS] == "a", "there is nobody else"
        await anyio.sleep(HEARD_S)
        found = await processes(parse_ledger_url(site.url), site.dependencies("people"))
        [shown] = found.unservable
        assert shown.text.startswith(
            "nobody can serve schedules and flows: the folder /data of p is not there (process "
        )


@pytest.mark.slow
async def test_who_is_told_to_leaves_schedules_and_flows_to_others_also_where_there_are_none(site: Site) -> None:
    run = await site.run_at(ONE)
    async with site.serving("a", takes_pipelines=False):
        await site.until(run, State.SUCCEEDED)
        await anyio.sleep(2 * LEFT_S)
        assert (await site.shards())[KEEPERS] is None
        found = await processes(parse_ledger_url(site.url), site.dependencies("people"))
        assert [each.text.partition(" (")[0] for each in found.unservable] == [
            "nobody can serve schedules and flows: it was told to leave them to others"
        ]
        async with site.serving("b"):
            await anyio.sleep(SOON_S + LEFT_OVER_US / SECOND_US)
            assert (await site.shards())[KEEPERS] == "b"


async def test_of_a_ledger_in_a_file_nobody_can_leave_them() -> None:
    request = ServeRequest(ledger=Path("l.db"), connection=ConnectionSettings(), takes_pipelines=False)
    with pytest.raises(UsageError, match="one process does all of a ledger in a file"):
        await serve(request)
