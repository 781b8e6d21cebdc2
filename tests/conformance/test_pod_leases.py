"""Leases of pods: written before anybody is asked, found by whoever comes next, and added up to what a run has paid."""

import json

import pytest
from msgspec.structs import replace

from orchestrator.core.pods.pod_lease import LeaseEnd, LeaseState, ending, lease_ended, ready
from orchestrator.core.pods.pod_template import PodTemplate
from orchestrator.ledger import Ledger
from orchestrator.ledger.commands.command_types import PODS_THERE, Action, ReplyCode
from orchestrator.ledger.runs.pod_leases import LeaseRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.ledger.ledgers import OpenLedger, a_run, obeyed
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

TEMPLATE = PodTemplate(name="vllm", template="vllm-l4", port=8000, gpu="NVIDIA L4", data_centers=("EU-1",))
WISH = LeaseRequest(
    run=0,
    run_name="Captions, of May",
    run_created_at=255,
    service_url="http://s",
    rest_url="http://rest",
    template=TEMPLATE,
)
HOUR_US = 3_600 * SECOND_US


async def wish_of(ledger: Ledger, name: str = "run") -> LeaseRequest:
    """A run of that name wants a pod."""
    return replace(WISH, run=(await a_run(ledger, name=name)).id)


async def test_what_is_wanted_is_found_by_whoever_comes_next_under_a_name_of_its_own(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger, open_file(clock=clock) as other:
        wish = await wish_of(ledger)
        leases = await ledger.runs.pod_leases.want([wish, wish])
        assert [each.name for each in leases] == ["captions-of-may-ff-1", "captions-of-may-ff-2"]
        assert await other.runs.pod_leases.all(open_only=True) == leases
        assert [each.wanted_at for each in leases] == [clock.now()] * 2
        [third] = await other.runs.pod_leases.want([replace(await wish_of(other, "other"), run_name="...")])
        assert third.name == "run-ff-1"
        assert await ledger.runs.pod_leases.all(run=wish.run) == leases


async def test_how_one_stands_is_kept_until_it_has_ended_and_no_longer(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        leases, wish = ledger.runs.pod_leases, await wish_of(ledger)
        [lease] = await leases.want([wish])
        now = clock.now()
        known = replace(ready(lease, now), pod="p1", began_at=now, per_hour=0.5)
        assert await leases.write(known)
        assert await leases.all() == [known]
        going = ending(known, LeaseEnd.LOST, now, "the pod is EXITED")
        assert await leases.write(going)
        over = lease_ended(going, LeaseEnd.DONE, now + HOUR_US)
        assert await leases.write(over)
        assert not await leases.write(known)
        assert await leases.all() == [over]
        assert (over.state, over.end) == (LeaseState.ENDED, LeaseEnd.LOST)
        assert await leases.all(open_only=True) == []
        [again] = await leases.want([replace(wish, rests=over)])
        assert (again.name, again.pod, again.is_new) == (over.name, "p1", False)


async def test_a_pod_that_rests_is_started_again_for_one_of_those_who_want_it(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger, open_file(clock=clock) as other:
        first, wish = await wish_of(ledger), await wish_of(ledger, "other")
        [lease] = await ledger.runs.pod_leases.want([first])
        rests = lease_ended(replace(lease, pod="p1"), LeaseEnd.DONE, clock.now())
        await ledger.runs.pod_leases.write(rests)
        [again] = await ledger.runs.pod_leases.want([replace(first, rests=rests)])
        wishes = [replace(wish, rests=rests), replace(wish, rests=rests, rest_url="http://else"), wish]
        made = await other.runs.pod_leases.want(wishes)
        assert [each.pod for each in (again, *made)] == ["p1", "p1", None]
        await ledger.runs.pod_leases.write(lease_ended(again, LeaseEnd.DONE, clock.now()))
        assert [each.pod for each in await other.runs.pod_leases.want([replace(wish, rests=rests)])] == ["p1"]


async def test_a_run_goes_once_no_pod_of_it_may_be_paid_and_gets_none_from_then_on(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        wish = await wish_of(ledger)
        [lease] = await ledger.runs.pod_leases.want([wish])
        refused = await obeyed(ledger, Action.DELETE, run=wish.run)
        assert (refused.outcome, refused.code) == (PODS_THERE, ReplyCode.PODS_PAID)
        assert not await ledger.runs.take_back(wish.run)
        await ledger.runs.pod_leases.write(ending(lease, LeaseEnd.DONE, clock.now()))
        assert not await ledger.runs.take_back(wish.run), "it is to end, and nobody has seen that yet"
        await ledger.runs.pod_leases.write(lease_ended(lease, LeaseEnd.NEVER, clock.now()))
        assert (await obeyed(ledger, Action.DELETE, run=wish.run)).outcome == "it is deleted"
        assert await ledger.runs.pod_leases.want([wish]) == []


async def test_a_message_of_a_run_says_what_its_pods_have_cost(open_file: OpenLedger) -> None:
    clock = VirtualClock()
    async with open_file(clock=clock) as ledger:
        run = await a_run(ledger, 1, settings=RunSettings(notify="env:HOOK", pod_template=TEMPLATE))
        one, two, _ = await ledger.runs.pod_leases.want([replace(WISH, run=run.id)] * 3)
        now = clock.now()
        done = lease_ended(replace(one, began_at=now, per_hour=0.5), LeaseEnd.DONE, now + HOUR_US)
        await ledger.runs.pod_leases.write(done)
        await ledger.runs.pod_leases.write(replace(two, began_at=now - HOUR_US, per_hour=1.0))
        await obeyed(ledger, Action.CANCEL, run=run.id)
        while await ledger.jobs.cancels.end(run.id, most=1):
            pass
        [receiver] = await ledger.flows.run_outbox.receivers_due(ledger.now())
        message = await ledger.flows.run_outbox.first_due(*receiver, ledger.now())
        assert message is not None
        assert json.loads(message.body)["data"]["spent"] == pytest.approx(1.5, abs=0.01)
