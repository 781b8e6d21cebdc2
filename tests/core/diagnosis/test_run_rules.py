"""What holds runs up: each rule by itself, and the order in which they are told."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.core.diagnosis import ledger_rules, limit_rules, run_rules
from orchestrator.core.diagnosis.causes import RANK, Cause, Diagnosis, Finding
from orchestrator.core.diagnosis.facts import (
    SILENT_US_MAX,
    Facts,
    LedgerState,
    MemberTrouble,
    RunState,
    Sending,
    ServiceState,
    StuckBatch,
    WebhookState,
)
from orchestrator.core.diagnosis.rules import findings
from orchestrator.core.diagnosis.run_rules import different_members
from orchestrator.core.gates import gates
from orchestrator.core.gates.brake_gates import Brake
from orchestrator.core.gates.gates import Gate, Hold
from orchestrator.core.gates.scaling_override import Bounds, RaisedWorkers
from orchestrator.core.jobs.deadlines import EXPIRING_US
from orchestrator.core.pods.paid_pod import PaidPod
from orchestrator.core.service.health import Health, JobCounts, WorkerCounts
from orchestrator.core.service.http_answers import POINTLESS
from orchestrator.units import HOUR_US, MINUTE_US

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "doctor.md").read_text(encoding="utf-8")

AT_WORK = LedgerState(path="l.db", holder="process 7 since noon")
NOBODY = LedgerState(path="l.db")
RUN = RunState(name="night run", endpoint="abc", counts={"queued": 10, "outstanding": 3, "succeeded": 5})
FREE = Sending(used=10, allowance=100, throttled=0, concurrent=200)

TRYING = Hold(Gate.REFUSED, gates.REFUSED, stops=False)
UNANSWERED = Hold(Gate.UNANSWERED, gates.UNANSWERED, stops=False)
NO_KEY = Hold(Gate.UNSERVABLE, "the process that works on this ledger has no API key", stops=False)


def found(run: RunState = RUN, ledger: LedgerState | None = AT_WORK) -> list[Cause]:
    return [each.cause for each in of(run, ledger)]


def of(run: RunState = RUN, ledger: LedgerState | None = AT_WORK) -> tuple[Finding, ...]:
    return findings(Facts(ledger=ledger, runs=[run]))


def test_a_run_at_work_has_no_findings_and_nothing_at_all_has_none() -> None:
    assert found() == found(replace(RUN, sending=FREE)) == found(RUN, None) == []
    assert findings(Facts()) == findings(Facts(ledger=NOBODY)) == ()


def test_a_finished_run_needs_nobody() -> None:
    over = replace(RUN, counts={"succeeded": 9}, blocked_by=TRYING, is_paused=True, safe_us=0, unreachable_us=1)
    assert found(over) == found(over, NOBODY) == found(over, replace(AT_WORK, silent_us=9 * MINUTE_US)) == []


def test_a_ledger_that_cannot_be_read_is_all_that_is_said() -> None:
    assert [each.cause for each in findings(Facts(ledger=replace(NOBODY, newer="0099")))] == [Cause.LEDGER_NEWER]
    assert [each.cause for each in findings(Facts(ledger=replace(NOBODY, busy="process 7")))] == [Cause.LEDGER_IN_USE]


def test_a_silent_process_is_told_from_none_and_from_one_that_has_just_spoken() -> None:
    assert found(RUN, replace(AT_WORK, silent_us=SILENT_US_MAX)) == []
    [finding] = of(RUN, replace(AT_WORK, silent_us=5 * MINUTE_US))
    assert (finding.cause, finding.about) == (Cause.LEDGER_IN_USE, "l.db")
    assert finding.evidence == ("process 7 since noon; it has said nothing for 5 min",)


def test_what_a_brake_stopped_is_told_with_what_lifts_it_and_not_as_work_for_a_process() -> None:
    queued = replace(RUN, counts={"queued": 10})
    [finding] = of(replace(queued, hold=Hold(Brake.BREAKER, "the first 20 executions failed")), NOBODY)
    assert (finding.cause, finding.sentence) == (Cause.RUN_BLOCKED, f"{gates.STOPPED}: the first 20 executions failed")
    lift, resume = "continue run night run", "resume run night run"
    assert finding.advice == f"mend what it says, and have it go on: {lift}; then {resume}"
    held = Hold(Brake.DEADLINE, "it would end too late")
    [finding] = of(replace(queued, hold=held), NOBODY)
    assert "give it a later time, by the flag of: change brakes night run; then" in finding.advice
    assert found(replace(RUN, hold=held), NOBODY) == [Cause.NO_PROCESS, Cause.RUN_BLOCKED], (
        "results are to be collected"
    )
    assert found(replace(queued, hold=held, is_paused=True), NOBODY) == [Cause.PAUSED]
    assert found(replace(queued, hold=held)) == []
    assert found(replace(queued, counts={"succeeded": 1}, hold=held), NOBODY) == []


def test_where_nobody_works_what_is_open_or_at_the_service_waits() -> None:
    [finding] = of(RUN, NOBODY)
    assert (finding.cause, finding.sentence) == (Cause.NO_PROCESS, ledger_rules.NOBODY)
    assert finding.advice == "resume run night run"
    assert of(replace(RUN, is_of_flow=True), NOBODY)[0].advice == "carry out flows night run"
    queued = replace(RUN, counts={"queued": 2})
    assert found(replace(queued, is_paused=True), NOBODY) == [Cause.PAUSED]
    assert found(replace(queued, is_cancelled=True), NOBODY) == []
    assert found(replace(RUN, is_cancelled=True), NOBODY) == [Cause.NO_PROCESS]


def test_a_pause_holds_up_what_is_queued() -> None:
    assert found(replace(RUN, is_paused=True)) == [Cause.PAUSED]
    assert found(replace(RUN, is_paused=True, counts={"outstanding": 3}, blocked_by=TRYING)) == []


def test_a_member_of_a_pool_that_is_not_well_is_told_and_needs_somebody_where_none_is() -> None:
    well, unwell = MemberTrouble(endpoint="abc"), MemberTrouble(endpoint="def", why="no machine")
    [one] = of(replace(RUN, members=(well, unwell)))
    assert (one.cause, one.about, one.sentence) == (
        Cause.MEMBER_UNWELL,
        "night run: def",
        "it gets nothing: no machine",
    )
    assert (one.evidence, one.needs_person) == (("what waited there goes to abc",), False)
    [tried] = of(replace(RUN, members=(well, replace(unwell, is_tried=True))))
    assert tried.sentence == "it gets single jobs: no machine"
    [none] = of(replace(RUN, members=(unwell,)))
    assert (none.evidence, none.needs_person) == (("no member is well",), True)
    assert Cause.MEMBER_UNWELL not in found(replace(RUN, members=(well, unwell)), NOBODY)


@pytest.mark.parametrize(
    ("own_ms", "there_ms", "said"),
    [
        (None, (600_000, 300_000), "abc: 10 min, def: 5 min"),
        (None, (600_000, 0), "abc: 10 min, def: as long as the service allows"),
        (None, (600_000, 600_000), None),
        (None, (600_000, None), None),
        (30_000, (600_000, 300_000), None),
    ],
)
def test_members_that_allow_an_execution_different_times_are_told(
    own_ms: int | None, there_ms: tuple[int | None, ...], said: str | None
) -> None:
    services = [
        ServiceState(endpoint=endpoint, service_url="https://s", timeout_ms=ms)
        for endpoint, ms in zip(("abc", "def"), there_ms, strict=True)
    ]
    other = ServiceState(endpoint="abc", service_url="https://other", timeout_ms=1)
    run = replace(RUN, service_url="https://s", pool=("abc", "def"), timeout_ms=own_ms)
    facts = Facts(ledger=AT_WORK, runs=[run], services=[*services, other])
    assert [each.evidence for each in different_members(facts)] == ([] if said is None else [(said,)])


def test_batches_that_wait_for_long_are_told_and_need_nobody() -> None:
    waiting = replace(RUN, batches_waiting=2, rows_waiting=7_000, batches_wait_us=3 * HOUR_US)
    [told] = of(waiting)
    assert (told.cause, told.needs_person) == (Cause.BATCH_WAITS, False)
    assert told.sentence == "2 batches with 7,000 rows in all: the service has not begun"
    assert found(replace(waiting, batches_wait_us=MINUTE_US)) == []
    assert Cause.BATCH_WAITS not in found(waiting, NOBODY)


def test_a_run_for_which_no_batch_is_made_needs_somebody() -> None:
    refused = replace(RUN, no_batch="the service refused it (400)", no_batch_us=HOUR_US)
    [told] = of(refused)
    assert (told.cause, told.needs_person) == (Cause.BATCH_REFUSED, True)
    assert told.sentence == "no batch is made for it: the service refused it (400)"
    assert found(replace(refused, no_batch_us=MINUTE_US)) == []
    assert found(replace(refused, counts={"outstanding": 3})) == []
    assert Cause.BATCH_REFUSED not in found(refused, NOBODY)


def test_a_batch_that_is_stuck_needs_somebody() -> None:
    stuck = StuckBatch(batch="batch_7", rows=5_000, ended=0, quiet_us=13 * HOUR_US)
    [told] = of(replace(RUN, stuck_batches=(stuck,)))
    assert (told.cause, told.needs_person) == (Cause.BATCH_STUCK, True)
    assert told.sentence == "batch_7 with 5,000 rows is stuck at the service: nothing comes of it any more"
    assert told.evidence == ("finalized 13 h ago",)
    assert "brakes" in told.advice
    runs = replace(stuck, batch="batch_8", ended=70, quiet_us=14 * HOUR_US, is_overtaken=True)
    [both] = of(replace(RUN, stuck_batches=(stuck, runs)))
    assert both.evidence == (
        "70 of 5,000 rows have ended, the last of them 14 h ago, and one that was finalized later has ended",
        "so is 1 other",
    )
    assert Cause.BATCH_STUCK not in found(replace(RUN, stuck_batches=(stuck,)), NOBODY)


def test_a_run_that_nobody_asked_for_is_found_beside_others() -> None:
    unserved = replace(RUN, is_unserved=True)
    [finding] = of(unserved)
    assert (finding.cause, finding.sentence) == (Cause.NO_PROCESS, ledger_rules.UNSERVED)
    assert found(replace(unserved, blocked_by=NO_KEY)) == [Cause.RUN_BLOCKED]
    assert found(replace(unserved, is_paused=True)) == [Cause.PAUSED]
    assert found(replace(unserved, is_cancelled=True)) == found(replace(unserved, counts={"outstanding": 1})) == []


def test_results_expire_only_where_nobody_collects_them() -> None:
    soon = replace(RUN, safe_us=EXPIRING_US)
    assert found(soon) == []
    assert found(replace(soon, is_uncollectable=True)) == [Cause.RESULTS_EXPIRE]
    assert found(replace(soon, unreachable_us=1)) == [Cause.UNREACHABLE, Cause.RESULTS_EXPIRE]
    assert found(soon, NOBODY) == [Cause.RESULTS_EXPIRE, Cause.NO_PROCESS]
    assert found(replace(soon, safe_us=EXPIRING_US + 1), NOBODY) == [Cause.NO_PROCESS]
    assert "in 10 min" in of(soon, NOBODY)[0].evidence[0]
    assert "gone already" in of(replace(soon, safe_us=0), NOBODY)[0].evidence[0]


@pytest.mark.parametrize(
    ("hold", "status", "cause"),
    [
        (Hold(Gate.SUSPECT, gates.suspected(0), stops=False), None, Cause.TRYING),
        (TRYING, None, Cause.TRYING),
        (UNANSWERED, None, Cause.TRYING),
        (Hold(Gate.STOPPED, POINTLESS[401]), 401, Cause.KEY_REFUSED),
        (Hold(Gate.STOPPED, POINTLESS[403]), 403, Cause.KEY_REFUSED),
        (Hold(Gate.STOPPED, POINTLESS[404]), 404, Cause.ENDPOINT_UNKNOWN),
        (Hold(Gate.STOPPED, POINTLESS[410]), 410, Cause.ENDPOINT_UNKNOWN),
        (Hold(Gate.STOPPED, POINTLESS[402]), 402, Cause.STOPPED),
        (Hold(Gate.FAILING, "20 executions in a row failed"), None, Cause.STOPPED),
        (NO_KEY, None, Cause.RUN_BLOCKED),
        (Hold("of a later program", "it waits", stops=False), None, Cause.RUN_BLOCKED),
    ],
)
def test_a_gate_is_said_in_its_own_words(hold: Hold, status: int | None, cause: Cause) -> None:
    [finding] = of(replace(RUN, blocked_by=hold, stopped_status=status))
    assert (finding.cause, finding.sentence) == (cause, hold.sentence)
    assert finding.needs_person is (cause is not Cause.TRYING)
    assert found(replace(RUN, blocked_by=hold), NOBODY) == [Cause.NO_PROCESS], "it was said long ago"


REFUSED = replace(RUN, refused=POINTLESS[403], refused_status=403, refused_us=3 * HOUR_US)
WELL = ServiceState(
    endpoint=RUN.endpoint,
    service_url=RUN.service_url,
    status=200,
    health=Health(jobs=JobCounts(in_progress=0), workers=WorkerCounts(idle=1, running=0)),
)


def asked_too(run: RunState, ledger: LedgerState, service: ServiceState = WELL) -> tuple[Finding, ...]:
    return findings(Facts(ledger=ledger, runs=[run], services=[service]))


def test_a_key_that_was_refused_last_is_why_nobody_works() -> None:
    [finding] = of(REFUSED, NOBODY)
    assert (finding.cause, finding.needs_person) == (Cause.KEY_REFUSED, True)
    assert finding.sentence == f"{gates.STOPPED}: {POINTLESS[403]}"
    assert finding.evidence == ("submissions were answered so 3 h ago; 10 queued",)
    assert finding.advice.endswith("give the command again: resume run night run")
    [finding] = asked_too(REFUSED, NOBODY)
    assert finding.evidence[1:] == (run_rules.READABLE,)
    assert found(replace(REFUSED, is_paused=True), NOBODY) == [Cause.NO_PROCESS, Cause.PAUSED]
    assert found(replace(REFUSED, is_cancelled=True), NOBODY) == [Cause.NO_PROCESS]
    assert found(replace(REFUSED, counts={"outstanding": 1}), NOBODY) == [Cause.NO_PROCESS]
    assert found(replace(REFUSED, refused=POINTLESS[402], refused_status=402), NOBODY) == [Cause.STOPPED]


def test_an_endpoint_that_answers_again_was_unknown_once() -> None:
    unknown = replace(REFUSED, refused=f"{POINTLESS[404]}: http://service/v2/abc", refused_status=404)
    assert found(unknown, NOBODY) == [Cause.ENDPOINT_UNKNOWN]
    assert [each.cause for each in asked_too(unknown, NOBODY)] == [Cause.NO_PROCESS]


def test_single_submissions_find_out_in_vain_whether_a_key_was_mended() -> None:
    trying = replace(REFUSED, blocked_by=TRYING)
    [finding] = of(trying)
    assert (finding.cause, finding.needs_person) == (Cause.KEY_REFUSED, True)
    assert "resume" not in finding.advice
    assert found(replace(trying, refused=None)) == [Cause.TRYING]
    stopped = replace(REFUSED, blocked_by=Hold(Gate.STOPPED, POINTLESS[401]), stopped_status=401)
    assert asked_too(stopped, AT_WORK)[0].evidence[1:] == (run_rules.READABLE,)
    assert found(REFUSED) == [], "since then a process has begun, and does not say so"


def test_why_single_requests_go_is_said_once() -> None:
    unanswered = replace(RUN, blocked_by=UNANSWERED)
    assert found(replace(unanswered, unreachable_us=1)) == [Cause.UNREACHABLE]
    gone = replace(WELL, health=None, status=None, failure="no route", hurdle=None)
    assert [each.cause for each in asked_too(unanswered, AT_WORK, gone)] == [Cause.UNREACHABLE]
    shut = replace(WELL, health=None, status=401)
    assert [each.cause for each in asked_too(replace(RUN, blocked_by=TRYING), AT_WORK, shut)] == [Cause.KEY_REFUSED]
    assert [each.cause for each in asked_too(unanswered, AT_WORK)] == [Cause.TRYING]


def test_what_was_asked_of_a_run_waits_for_somebody_who_works() -> None:
    over = replace(RUN, counts={"failed": 9}, asked=("retry", "resend"), asked_us=5 * MINUTE_US)
    assert found(over) == []
    [finding] = of(over, NOBODY)
    assert (finding.cause, finding.sentence) == (Cause.NO_PROCESS, ledger_rules.ASKED)
    assert finding.evidence == ("asked 5 min ago: retry, resend",)
    assert of(replace(over, counts=RUN.counts), NOBODY)[0].evidence[1:] == finding.evidence
    assert found(over, replace(AT_WORK, silent_us=5 * MINUTE_US)) == [Cause.LEDGER_IN_USE]


def test_webhooks_that_do_not_come_are_found() -> None:
    assert found(replace(RUN, webhooks_fail=True)) == [Cause.WEBHOOK_UNREACHABLE]
    assert found(replace(RUN, webhooks_fail=True), NOBODY) == [Cause.NO_PROCESS]


@pytest.mark.parametrize(
    ("sending", "cause"),
    [
        (replace(FREE, used=90), Cause.RATE_LIMIT),
        (replace(FREE, in_flight=180), Cause.CONCURRENCY),
        (replace(FREE, used=90, in_flight=180), Cause.RATE_LIMIT),
        (replace(FREE, queue_full=True), Cause.QUEUE_FULL),
    ],
)
def test_the_limit_that_binds_is_found_where_jobs_wait_and_needs_nobody(sending: Sending, cause: Cause) -> None:
    run = replace(RUN, sending=sending)
    [finding] = of(run)
    assert (finding.cause, finding.needs_person) == (cause, False)
    assert found(replace(run, counts={"outstanding": 9})) == []
    assert found(replace(run, is_paused=True)) == [Cause.PAUSED]


@pytest.mark.parametrize(("stray", "why"), [(0.004, "too few for a lower rate"), (0.031, "as many at a lower rate")])
def test_429s_that_our_rate_does_not_cause_are_told_before_the_rate(stray: float, why: str) -> None:
    run = replace(RUN, sending=replace(FREE, used=90, stray=stray, stray_operation="status"))
    stray_429s, rate = of(run)
    assert (stray_429s.cause, stray_429s.sentence) == (Cause.STRAY_REFUSALS, limit_rules.STRAY_429S)
    assert stray_429s.evidence[0].startswith(f"{stray:.1%} of the requests to /status: {why}")
    assert rate.cause is Cause.RATE_LIMIT
    assert found(run, replace(AT_WORK, holder=None)) == [Cause.NO_PROCESS]


def test_a_service_that_takes_less_than_the_limit_is_told_with_the_rate() -> None:
    [finding] = of(replace(RUN, sending=replace(FREE, used=58, allowance=60, share=0.6)))
    assert finding.cause is Cause.RATE_LIMIT
    assert "takes 60% of the limit" in finding.evidence[0]


def test_the_bound_of_outstanding_jobs_comes_before_the_limits() -> None:
    run = replace(RUN, is_bound=True, sending=replace(FREE, used=100))
    assert [each.sentence for each in of(run)] == [gates.OUTSTANDING]
    unlimited = replace(FREE, concurrent=None, in_flight=10_000)
    assert found(replace(RUN, sending=unlimited)) == []


def test_what_nothing_gets_past_comes_first() -> None:
    worst = replace(RUN, unreachable_us=1, safe_us=0, blocked_by=UNANSWERED, webhooks_fail=True)
    causes = found(worst)
    assert causes == sorted(causes, key=RANK.__getitem__)
    assert causes == [Cause.UNREACHABLE, Cause.RESULTS_EXPIRE, Cause.WEBHOOK_UNREACHABLE]


def test_a_diagnosis_knows_whether_a_person_is_needed() -> None:
    paused, trying = of(replace(RUN, is_paused=True)), of(replace(RUN, blocked_by=TRYING))
    assert Diagnosis(findings=paused + trying, runs=1).needs_person
    assert not Diagnosis(findings=trying, runs=1).needs_person


def test_every_cause_has_its_row_on_the_page_in_its_rank() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| .+ \| .+ \| (?:yes|no|yes, if .+|no, but .+) \|$", PAGE, re.MULTILINE)
    assert rows == list(Cause)


def after_self_test(run: RunState = RUN, ledger: LedgerState = AT_WORK, **state: object) -> list[Finding]:
    webhook = WebhookState(url="https://hooks.example", **state)  # type: ignore[arg-type]
    return list(findings(Facts(ledger=ledger, runs=[run], webhook=webhook)))


def test_a_webhook_url_that_leads_nowhere_or_to_somebody_else_is_found_unless_webhooks_come() -> None:
    assert after_self_test(is_ours=True, status=200) == []
    [lost] = after_self_test(failure="no connection to hooks.example: nothing within 10 s")
    assert (lost.cause, lost.about) == (Cause.WEBHOOK_UNREACHABLE, "https://hooks.example")
    [other] = after_self_test(status=200)
    assert (other.cause, other.evidence[0][:16]) == (Cause.WEBHOOK_ANSWERED, "it answered 200,")
    assert after_self_test(replace(RUN, webhooks_come=True), failure="no connection") == []
    assert [each.cause for each in after_self_test(RUN, NOBODY, status=404)] == [Cause.NO_PROCESS]


def test_a_webhook_url_that_answers_here_may_not_be_reached_from_outside() -> None:
    [finding] = after_self_test(replace(RUN, webhooks_fail=True), is_ours=True, status=200)
    assert (finding.cause, finding.sentence) == (Cause.WEBHOOK_UNREACHABLE, run_rules.WEBHOOKS_MISSING)
    assert "https://hooks.example is answered as it should be, from this machine" in finding.evidence


def test_a_disk_that_is_nearly_full_matters_to_open_runs() -> None:
    full = replace(AT_WORK, free_bytes=ledger_rules.DISK_BYTES_MIN - 1)
    [finding] = of(RUN, full)
    assert (finding.cause, finding.evidence) == (Cause.DISK_FULL, ("256.0 MiB more can be written",))
    assert found(RUN, replace(full, free_bytes=ledger_rules.DISK_BYTES_MIN)) == []
    assert found(replace(RUN, counts={"succeeded": 1}), full) == []


def test_a_ledger_on_a_network_disk_is_found_whatever_its_runs_do() -> None:
    [finding] = findings(Facts(ledger=replace(NOBODY, network="nfs4")))
    assert (finding.cause, finding.evidence) == (Cause.LEDGER_ON_NETWORK, ("its file system is nfs4",))


def test_workers_that_were_raised_and_are_nobodys_are_told_with_what_puts_them_back() -> None:
    raised = RaisedWorkers(
        endpoint="ep", service_url="http://s", before=Bounds(0, 3), raised=Bounds(2, 10), since=3_600_000_000
    )
    [found] = findings(Facts(ledger=NOBODY, raised_workers=[raised], now=7_200_000_000))
    assert (found.cause, found.about, found.needs_person) == (Cause.WORKERS_RAISED, "ep", True)
    assert "still has 2 to 10 workers instead of 0 to 3" in found.sentence
    assert found.evidence == ("raised 1 h ago, and not put back",)
    assert "restore workers" in found.advice
    at_work = replace(NOBODY, holder="process 7", silent_us=0)
    assert findings(Facts(ledger=at_work, raised_workers=[raised], now=7_200_000_000)) == ()


def test_a_rest_that_the_service_wants_of_questions_is_told_while_jobs_are_there() -> None:
    resting = replace(RUN, unwanted_us=50 * MINUTE_US, safe_us=28 * MINUTE_US)
    [finding] = of(resting)
    assert (finding.cause, finding.about, finding.needs_person) == (Cause.QUESTIONS_UNWANTED, "night run", False)
    assert finding.evidence == (
        "it wants none for 50 min more; 3 at the service, of which the first result may be gone in 28 min",
    )
    [finding] = of(replace(resting, safe_us=None))
    assert finding.evidence == ("it wants none for 50 min more; 3 at the service",)
    assert found(replace(resting, unwanted_us=0)) == found(replace(resting, counts={"queued": 10})) == []
    assert Cause.QUESTIONS_UNWANTED not in found(resting, NOBODY)


def test_pods_that_are_paid_for_nothing_are_told_with_what_ends_them() -> None:
    left = PaidPod(name="in-ff-1", pod="p1", run="in", since=3_600_000_000, per_hour=0.5)
    [found] = findings(Facts(ledger=NOBODY, paid_pods=[left], now=7_200_000_000))
    assert (found.cause, found.about, found.needs_person) == (Cause.PODS_PAID, "p1", True)
    assert found.evidence == ("for in, since 1 h, for 0.50 an hour",)
    assert "restore workers" in found.advice
    at_work = replace(NOBODY, holder="process 7", silent_us=0)
    assert findings(Facts(ledger=at_work, paid_pods=[left], now=7_200_000_000)) == ()
    stays = replace(left, ending_since=3_600_000_000, per_hour=0.0)
    [found] = findings(Facts(ledger=at_work, paid_pods=[stays], now=7_200_000_000))
    assert "could not be ended" in found.sentence
    assert found.evidence == ("for in, since 1 h",)
    idle = replace(left, ready_since=3_600_000_000)
    [found] = findings(Facts(ledger=at_work, paid_pods=[idle], now=7_200_000_000))
    assert ("nothing to do" in found.sentence, found.needs_person) == (True, False)
