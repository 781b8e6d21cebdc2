import random
from collections.abc import Mapping

import pytest

from orchestrator.emulator.contract.answers import ConnectionCut, HttpAnswer, ServiceRefusal
from orchestrator.emulator.contract.callers import Caller, CallerAccess
from orchestrator.emulator.contract.faults import FaultDice, Faults
from orchestrator.emulator.contract.limits import (
    CONTRACT_LIMITS,
    JobOperation,
    MeterFigures,
    OperationLimit,
    OperationMeters,
)
from orchestrator.emulator.http.gate import Gate, KnownEndpoints
from orchestrator.emulator.http.wire import Cut, Wire

NO_FAULTS = Faults()
ACCEPTED = HttpAnswer(status=200, body=b'{"id":"x"}')


def gate(
    faults: Faults = NO_FAULTS,
    *,
    endpoints: tuple[str, ...] = ("ep",),
    keys: tuple[str, ...] | None = ("secret",),
    limits: Mapping[JobOperation, OperationLimit] = CONTRACT_LIMITS,
) -> Gate:
    dice = FaultDice(faults, random.Random(1))
    return Gate(
        endpoints=KnownEndpoints(endpoints),
        access=CallerAccess(None if keys is None else dict.fromkeys(keys, Caller())),
        meters=OperationMeters(limits),
        wire=Wire(dice),
    )


def refused(gate: Gate, endpoint: str = "ep", authorization: str = "Bearer secret") -> int:
    with pytest.raises(ServiceRefusal) as caught:
        gate.enter(endpoint, JobOperation.RUN, authorization, 5)
    return caught.value.status


@pytest.mark.parametrize("authorization", ["Bearer secret", "bearer  secret ", "secret"])
def test_a_key_is_taken_bare_or_as_a_bearer(authorization: str) -> None:
    gate().enter("ep", JobOperation.RUN, authorization, 5)


@pytest.mark.parametrize("authorization", ["", "Bearer ", "Bearer", "Bearer wrong", "wrong"])
def test_a_wrong_key_is_a_401(authorization: str) -> None:
    assert refused(gate(), authorization=authorization) == 401


def test_the_workers_of_an_endpoints_batches_are_none_to_anybody_but_themselves() -> None:
    for known in ("ep", "*"):
        assert refused(gate(endpoints=(known,)), endpoint="ep.batch") == 404
        gate(endpoints=(known,)).enter_worker("ep.batch", "secret", 5)


def test_without_configured_keys_any_key_will_do_but_there_must_be_one() -> None:
    gate(keys=None).enter("ep", JobOperation.RUN, "Bearer anything", 5)
    for empty in ("", "Bearer ", "bearer", " Bearer  "):
        assert refused(gate(keys=None), authorization=empty) == 401


def test_an_unknown_endpoint_is_a_404_unless_all_exist() -> None:
    assert refused(gate(), endpoint="other") == 404
    gate(endpoints=("*",)).enter("other", JobOperation.RUN, "secret", 5)


def test_a_hidden_endpoint_is_a_404_until_it_is_shown_again() -> None:
    subject = gate()
    subject.hide("ep")
    assert refused(subject) == 404
    subject.show("ep")
    subject.enter("ep", JobOperation.RUN, "secret", 5)


def test_each_endpoint_and_operation_has_a_meter_of_its_own() -> None:
    subject = gate(endpoints=("*",), limits={JobOperation.RUN: OperationLimit(requests=1)})
    subject.enter("a", JobOperation.RUN, "secret", 5)
    subject.enter("b", JobOperation.RUN, "secret", 5)
    subject.enter("a", JobOperation.STATUS, "secret", 5)
    assert refused(subject, endpoint="a") == 429
    assert subject.meters.figures("a", JobOperation.RUN).refused == 1
    assert subject.meters.figures("a", JobOperation.CANCEL) == MeterFigures()


def test_a_lost_request_is_cut_and_not_counted() -> None:
    subject = gate(Faults(lost_request=1.0))
    with pytest.raises(ConnectionCut):
        subject.enter("ep", JobOperation.RUN, "secret", 5)
    assert subject.meters.figures("ep", JobOperation.RUN) == MeterFigures()


def test_a_throttling_fault_is_a_429_that_the_meter_does_not_see() -> None:
    subject = gate(Faults(throttled=1.0))
    assert refused(subject) == 429
    assert subject.meters.figures("ep", JobOperation.RUN) == MeterFigures()


def test_a_server_error_is_a_500_that_leaves_the_meter() -> None:
    subject = gate(Faults(server_error=1.0), limits={JobOperation.RUN: OperationLimit(concurrent=1)})
    assert [refused(subject), refused(subject)] == [500, 500]


def test_only_an_accepted_job_can_lose_its_answer() -> None:
    subject = gate(Faults(lost_answer=1.0))
    assert subject.sending(JobOperation.RUN, ACCEPTED).cut is Cut.BEFORE_ANSWER
    assert subject.sending(JobOperation.STATUS, ACCEPTED).cut is Cut.NOWHERE
    assert subject.sending(JobOperation.RUN, ServiceRefusal(400, "no").answer()).cut is Cut.NOWHERE


def test_a_slow_answer_can_be_cut_too() -> None:
    sending = gate(Faults(slow_answer=1.0, slow_answer_s=2.5, cut_answer=1.0)).sending(JobOperation.HEALTH, ACCEPTED)
    assert (sending.delay_us, sending.cut) == (2_500_000, Cut.INSIDE_BODY)
