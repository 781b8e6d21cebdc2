"""What holds runs up at the service, by what it answered when it was asked how it is."""

import pytest
from msgspec.structs import replace

from orchestrator.core.diagnosis import service_rules
from orchestrator.core.diagnosis.causes import Cause
from orchestrator.core.diagnosis.facts import Facts, LedgerState, RunState, ServiceState
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.lanes.http import POINTLESS_AT_URL
from orchestrator.core.service.health import Health, JobCounts, WorkerCounts
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.core.service.url_endpoints import BY_URL
from orchestrator.errors import Hurdle
from orchestrator.units import MINUTE_US, SECOND_US

URL = "https://api.example"
WELL = Health(jobs=JobCounts(in_progress=3, in_queue=9), workers=WorkerCounts(idle=0, running=3))
NONE = replace(WELL, workers=WorkerCounts(idle=0, running=0))
ASKED = ServiceState(endpoint="abc", service_url=URL, status=200, health=WELL, ahead_us=0)
RUN = RunState(name="night", endpoint="abc", service_url=URL, counts={"queued": 10, "outstanding": 3})
AT_WORK = LedgerState(path="l.db", holder="process 7")


def found(*services: ServiceState, run: RunState = RUN, ledger: LedgerState | None = AT_WORK) -> list[Cause]:
    return [each.cause for each in findings(Facts(ledger=ledger, runs=[run], services=services))]


def with_workers(**workers: int) -> ServiceState:
    return replace(ASKED, health=replace(NONE, workers=replace(NONE.workers, **workers)))


def test_nothing_is_found_where_workers_work_and_the_clock_is_right() -> None:
    assert found(ASKED) == found(with_workers(idle=1)) == found(replace(ASKED, ahead_us=None)) == []
    assert found(replace(ASKED, health=replace(NONE, jobs=JobCounts(in_queue=0)))) == []
    assert found(replace(ASKED, health=replace(NONE, workers=WorkerCounts(running=0)))) == found(
        replace(ASKED, health=replace(NONE, workers=WorkerCounts(idle=0)))
    )


@pytest.mark.parametrize(
    ("hurdle", "cause"),
    [
        (Hurdle.DNS, Cause.DNS),
        (Hurdle.PROXY, Cause.PROXY),
        (Hurdle.TLS, Cause.TLS),
        (Hurdle.TIME_OUT, Cause.TIME_OUT),
        (None, Cause.UNREACHABLE),
    ],
)
def test_what_is_in_the_way_is_said_once_and_better_than_the_process_knows(hurdle: Hurdle | None, cause: Cause) -> None:
    lost = ServiceState(endpoint="abc", service_url=URL, failure="no connection", hurdle=hurdle)
    assert found(lost, run=replace(RUN, unreachable_us=MINUTE_US)) == [cause]
    assert found(replace(lost, endpoint="xyz"), run=replace(RUN, unreachable_us=1)) == sorted(
        [cause, Cause.UNREACHABLE], key=list(Cause).index
    )


@pytest.mark.parametrize(
    ("status", "cause"),
    [(401, Cause.KEY_REFUSED), (403, Cause.KEY_REFUSED), (407, Cause.PROXY), (410, Cause.ENDPOINT_UNKNOWN)],
)
def test_a_refusal_is_said_in_the_words_of_the_run(status: int, cause: Cause) -> None:
    refused = replace(ASKED, status=status, health=None)
    [finding] = findings(Facts(services=[refused]))
    assert (finding.cause, finding.sentence) == (cause, POINTLESS[status])
    assert finding.about == "abc at https://api.example"


def test_an_endpoint_that_hides_how_it_is_while_jobs_are_collected_there_is_known() -> None:
    hidden = replace(ASKED, status=404, health=None)
    assert found(hidden) == []
    assert found(hidden, ledger=None) == [Cause.ENDPOINT_UNKNOWN]
    assert found(hidden, run=replace(RUN, counts={"queued": 1})) == [Cause.ENDPOINT_UNKNOWN]
    assert Cause.ENDPOINT_UNKNOWN in found(hidden, run=replace(RUN, blocked_by=Hold(Gate.UNSERVABLE, "it is held")))
    assert found(hidden, run=replace(RUN, service_url="https://other")) == [Cause.ENDPOINT_UNKNOWN]


def test_errors_and_somebody_else_are_told_from_an_answer_that_says_little() -> None:
    assert found(replace(ASKED, status=503, health=None, is_of_service=False)) == [Cause.SERVICE_FAILS]
    assert found(replace(ASKED, health=None, is_of_service=False)) == [Cause.NOT_THE_SERVICE]
    assert found(replace(ASKED, status=429, health=None)) == []


def test_a_clock_that_is_wrong_either_way_is_said_once() -> None:
    most = service_rules.CLOCK_US_MAX
    assert found(replace(ASKED, ahead_us=most)) == found(replace(ASKED, ahead_us=-most)) == []
    ahead, behind = replace(ASKED, ahead_us=most + SECOND_US), replace(ASKED, ahead_us=-10 * MINUTE_US)
    assert found(ahead, behind) == [Cause.CLOCK_WRONG]
    [finding] = findings(Facts(services=[behind]))
    assert finding.evidence == ("it is 10 min behind the service's",)
    assert "31 s ahead of" in findings(Facts(services=[ahead]))[0].evidence[0]


@pytest.mark.parametrize(
    ("workers", "cause", "needs_person"),
    [
        ({}, Cause.NO_WORKERS, True),
        ({"initializing": 2}, Cause.COLD_START, False),
        ({"throttled": 2}, Cause.WORKERS_THROTTLED, True),
        ({"throttled": 2, "initializing": 1}, Cause.WORKERS_THROTTLED, True),
        ({"throttled": 2, "running": 1}, Cause.WORKERS_THROTTLED, False),
        ({"unhealthy": 1}, Cause.WORKERS_UNHEALTHY, True),
        ({"unhealthy": 1, "idle": 1}, Cause.WORKERS_UNHEALTHY, False),
    ],
)
def test_why_jobs_wait_there_is_told_by_the_workers(workers: dict[str, int], cause: Cause, needs_person: bool) -> None:
    [finding] = findings(Facts(services=[with_workers(**workers)]))
    assert (finding.cause, finding.needs_person) == (cause, needs_person)
    assert "9 jobs in its queue" in finding.evidence[0]


def test_an_endpoint_at_zero_starts_no_worker_for_jobs_of_low_priority() -> None:
    assert found(with_workers(), run=replace(RUN, is_low_priority=True)) == [Cause.SCALED_TO_ZERO]
    assert found(with_workers(), run=replace(RUN, is_low_priority=True, endpoint="xyz")) == [Cause.NO_WORKERS]


def test_the_first_workers_may_take_as_long_as_they_usually_do_to_start() -> None:
    usual = service_rules.START_US_USUAL
    assert found(with_workers(initializing=2), run=replace(RUN, waited_us=usual)) == []
    assert found(with_workers(initializing=2), run=replace(RUN, waited_us=usual + 1)) == [Cause.COLD_START]


AT_URL = ServiceState(endpoint="https://host/v1", service_url=BY_URL, status=200, health=Health())
RUN_AT_URL = replace(RUN, endpoint="https://host/v1", service_url=BY_URL)


def advice_of(service: ServiceState, run: RunState = RUN_AT_URL) -> list[tuple[Cause, str, bool]]:
    facts = Facts(ledger=AT_WORK, runs=[run], services=[service])
    return [(each.cause, each.advice, each.needs_person) for each in findings(facts)]


def test_a_server_at_a_url_tells_that_it_starts_and_wants_headers_and_no_key_of_the_service() -> None:
    assert advice_of(AT_URL) == []
    [(cause, _, needs_person)] = advice_of(replace(AT_URL, status=204, health=None, is_of_service=False))
    assert (cause, needs_person) == (Cause.COLD_START, False)
    wanted = 'give what it wants in [endpoints."https://host/v1"] headers of the configuration file'
    assert advice_of(replace(AT_URL, status=401, health=None)) == [(Cause.KEY_REFUSED, wanted, True)]
    stopped = replace(RUN_AT_URL, blocked_by=Hold(Gate.STOPPED, POINTLESS_AT_URL[401]), stopped_status=401)
    assert advice_of(AT_URL, stopped) == [(Cause.KEY_REFUSED, f"{wanted}, and give the command again", True)]
    lost = replace(RUN_AT_URL, blocked_by=Hold(Gate.STOPPED, POINTLESS_AT_URL[404]), stopped_status=404)
    [(cause, advice, _)] = advice_of(AT_URL, lost)
    assert (cause, advice.split(",")[0]) == (Cause.ENDPOINT_UNKNOWN, "see whether the URL is right")
