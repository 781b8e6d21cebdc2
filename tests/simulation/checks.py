"""The checkers: what must be true of a world that was played, whatever went wrong in it.

Each looks at both sides, at what the service did and at what the ledger and the files say, and tells every violation
in a sentence.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain

from orchestrator.core.jobs.lifecycle import TERMINAL, TRANSITIONS, Event, State
from orchestrator.core.jobs.reasons import ReasonCode
from orchestrator.core.jobs.retry import AttemptLimits
from orchestrator.emulator.contract.limits import CONTRACT_LIMITS, JobOperation, OperationLimit
from orchestrator.settings.words_and_defaults import OnUncertain
from orchestrator.units import SECOND_US
from tests.simulation.batch_checks import OF_BATCHES, is_left_unbegun
from tests.simulation.books import Books, EventRow, JobRow, read_books
from tests.simulation.brake_checks import (
    no_budget_is_passed,
    nothing_is_sent_that_brakes_hold,
    the_rest_waits_for_the_canary,
    what_is_healthy_is_not_stopped,
)
from tests.simulation.chunk_checks import OF_CHUNKS, is_bad
from tests.simulation.command_checks import (
    each_command_is_acknowledged_once,
    no_command_is_carried_out_twice,
    no_command_stands_there_twice,
    what_was_asked_last_holds,
    who_is_stopped_sends_nothing,
)
from tests.simulation.compact import compact
from tests.simulation.engines.checks import OF_ENGINES
from tests.simulation.expiry_checks import is_no_result, nothing_expired
from tests.simulation.facts import Facts, RunFacts
from tests.simulation.flows.checks import OF_FLOWS
from tests.simulation.looked_up import (
    ASKED,
    HIDDEN,
    SENT_AGAIN,
    fate_of,
    input_of,
    is_carried,
    is_past_queue,
    true_moment,
    why_again,
)
from tests.simulation.message_checks import (
    an_episode_is_one_message,
    every_message_that_is_owed_arrives,
    no_message_is_taken_twice,
    who_wants_a_rest_has_it,
)
from tests.simulation.mistaken import mistaken_in
from tests.simulation.plan import FailureClass, Rate
from tests.simulation.pod_checks import OF_PODS
from tests.simulation.pool_checks import (
    each_member_is_sent_jobs_by_its_own_lane,
    is_moved_unbegun,
    nobody_in_doubt_is_sent_anew_unasked,
    nothing_is_left_at_a_member,
    what_was_moved_had_not_begun,
)
from tests.simulation.posted_checks import OF_POSTED
from tests.simulation.process import SECRETS
from tests.simulation.sample_checks import no_counter_of_samples_falls, the_last_samples_say_what_the_ledger_says
from tests.simulation.save_checks import OF_SAVES, as_it_came
from tests.simulation.scaling_checks import OF_SCALING

SOON_US = 2 * SECOND_US
"""What a process has heard it acts upon within so long."""

KEPT_US = 8 * SECOND_US
"""What was learned is written down every two seconds, but for what the database, or a sleep, takes."""

POINTLESS_US = 60 * SECOND_US

PAID_AGAIN = (ASKED, HIDDEN, Event.CONTINUED.value, "uncertain", "lost", "expired", "invalid_output", "timed_out")
"""The troubles after which a job that has a result at the service may be executed again. A time-out is among them for
jobs that ended, and died of their TTL, while nobody could look: `nothing_expired` tells whether somebody could."""

Check = Callable[[Facts, Books], Iterator[str]]


def it_came_to_an_end(facts: Facts, books: Books) -> Iterator[str]:
    """Once faults stop, everything finishes, and nothing breaks down on the way."""
    if facts.failure is not None:
        yield f"the program broke down: {facts.failure}"
    elif not facts.finished:
        states = Counter(job.state for job in books.jobs)
        yield f"not finished {facts.plan.patience_s:g} s after all faults, {sum(run.processes for run in facts.runs)} processes: {dict(states)}"


def every_job_has_one_outcome(facts: Facts, books: Books) -> Iterator[str]:
    """Each input is one job of its run, each job has one outcome, each result is its own, and the files say the same."""
    wanted = {(run.plan.name, f"job-{n}") for run in facts.runs for n in run.numbers}
    if {(job.run, job.custom_id) for job in books.jobs} != wanted or len(books.jobs) != len(wanted):
        yield f"{len(books.jobs)} jobs for {len(wanted)} inputs"
    outcomes = {row.job: row for row in books.outcomes}
    outputs = {name: facts.output_of(input_of(name)) for _, name in wanted}
    mistaken = mistaken_in(facts, books)
    for job in books.jobs:
        outcome = outcomes.get(job.id)
        if job.state not in TERMINAL or outcome is None:
            yield f"{job.custom_id} is {job.state} and has {'an' if outcome else 'no'} outcome"
        elif (
            job.state == State.SUCCEEDED
            and job.custom_id not in mistaken
            and as_it_came(facts, job.custom_id, outcome.output) != outputs.get(job.custom_id)
        ):
            yield f"{job.custom_id} has the result {(outcome.output or b'')[:100]!r}"
    if facts.finished:
        for run in facts.runs:
            states = {job.custom_id: _state_at(facts, books, job, run.ended_at) for job in books.jobs}
            of_run = {f"job-{n}": states[f"job-{n}"] for n in run.numbers if f"job-{n}" in states}
            yield from _files_say_the_same(facts, run, of_run, outputs, mistaken)


def _state_at(facts: Facts, books: Books, job: JobRow, at: int) -> State:
    """The state of a job when its run's files were written: a webhook may complete it after that."""
    events = [row.event for row in books.events.get(job.id, ()) if true_moment(facts, row) <= at]
    return reduce(lambda state, event: TRANSITIONS[state].get(Event(event), state), events, State.QUEUED)


def _files_say_the_same(
    facts: Facts, run: RunFacts, jobs: Mapping[str, State], outputs: Mapping[str, bytes], mistaken: Collection[str]
) -> Iterator[str]:
    for path, states in ((run.output, {State.SUCCEEDED}), (run.errors, TERMINAL - {State.SUCCEEDED})):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        found = [row["custom_id"] for row in rows]
        if found != [custom_id for custom_id, state in jobs.items() if state in states]:
            yield f"{path.name} holds {found}"
        sure = [row for row in rows if row["custom_id"] not in mistaken]
        told = {row["custom_id"]: compact(row["output"]) for row in sure if path == run.output}
        if any(as_it_came(facts, name, output) != outputs[name] for name, output in told.items()):
            yield f"{path.name} holds outputs that are not those of their rows"


def what_can_succeed_succeeds(facts: Facts, books: Books) -> Iterator[str]:
    """Where nothing happened that ends a job, no job has failed; so many answers in a row as it takes can be lost."""
    if facts.plan.all_succeed and facts.finished:
        unlucky = {job for job, rows in books.events.items() if _unanswered(rows) > AttemptLimits().uncertain}
        given_up = Counter(row.trouble for row in books.outcomes if row.trouble is not None and row.job not in unlucky)
        if given_up:
            yield f"jobs were given up for nothing: {dict(given_up)}"


def _unanswered(rows: Sequence[EventRow]) -> int:
    return sum(row.event == Event.UNANSWERED for row in rows)


def events_replay(_facts: Facts, books: Books) -> Iterator[str]:
    """The events of each job lead through the table of states to the state it is in."""
    for job in books.jobs:
        state = State.QUEUED
        for row in books.events.get(job.id, ()):
            after = TRANSITIONS[state].get(Event(row.event))
            if after is None:
                yield f"{job.custom_id} was {state} and {row.event}"
                break
            state = after
        if state != job.state:
            yield f"{job.custom_id} is {job.state}, its events say {state}"


def counts_agree(_facts: Facts, books: Books) -> Iterator[str]:
    """The kept counts are those of the rows; the cumulative ones those of the events; the file is sound."""
    states = Counter(job.state for job in books.jobs)
    kept = {name: n for name, n in books.counts.items() if name in set(State)}
    if kept != dict(states):
        yield f"the counts say {kept}, the rows {dict(states)}"
    events = [row for row in chain.from_iterable(books.events.values()) if not is_carried(books, row)]
    told = {
        "uncertain_seen": sum(row.event == Event.UNANSWERED for row in events),
        "uncertain_resubmitted": sum(row.event == Event.RETRIED and row.trouble == "uncertain" for row in events),
        "lost": sum(row.trouble == "lost" for row in events),
        "expired": sum(row.trouble == "expired" for row in events),
    }
    for name, n in told.items():
        if books.counts.get(name, 0) != n:
            yield f"the counter {name} is {books.counts.get(name, 0)}, the events say {n}"
    if books.integrity != "ok":
        yield f"the ledger is damaged: {books.integrity}"


def nothing_is_forgotten(facts: Facts, books: Books) -> Iterator[str]:
    """Whatever the service accepted is known by its id, or as a submission whose answer never came."""
    unknown: Counter[bytes] = Counter()
    known = {row.remote_id for row in books.submissions.values()}
    for remote_id, fate in facts.fates.items():
        if remote_id not in known:
            unknown.update(fate.rows)
    for job in books.jobs:
        uncertain = sum(row.event == Event.UNANSWERED for row in books.events.get(job.id, ()))
        ids = (row.remote_id for row in books.submissions.values() if row.job == job.id)
        fates = (facts.fates.get(remote_id or "") for remote_id in ids)
        uncertain += sum(
            fate is not None and input_of(job.custom_id) not in fate.rows for fate in fates
        )  # got another's id
        # past the queue no answer tells an id: each request was answered with what came of it, or with nothing
        claims = [row for row in books.events.get(job.id, ()) if row.event == Event.CLAIMED]
        uncertain += sum(is_past_queue(facts, books, job, row) for row in claims)
        if unknown[input_of(job.custom_id)] > uncertain:
            yield (
                f"{job.custom_id}: the service accepted {unknown[input_of(job.custom_id)]} submissions whose id is not "
                f"in the ledger, which knows of {uncertain} uncertain ones"
            )


def nothing_is_paid_twice(facts: Facts, books: Books) -> Iterator[str]:
    """Submissions and results at the service are at most one for each job, and one for each time that the ledger says
    why there had to be another.
    """
    accepted, completed = facts.accepted, facts.completed
    for job in books.jobs:
        again = [
            why_again(row, past_queue=is_past_queue(facts, books, job, row))
            for row in books.events.get(job.id, ())
            if row.event in SENT_AGAIN or is_moved_unbegun(row) or is_left_unbegun(row)
        ]
        if accepted[input_of(job.custom_id)] > 1 + len(again):
            yield f"{job.custom_id} was accepted {accepted[input_of(job.custom_id)]} times after {again}"
        paid = completed[input_of(job.custom_id)]
        # where no `/retry` shows that a webhook said what is not so, it costs
        is_untrue = facts.plan.faults.contrary_webhook and (facts.plan.pool or facts.plan.retry_rate)
        may_be_paid = {*PAID_AGAIN, "failed"} if is_untrue or is_bad(facts, job.custom_id) else PAID_AGAIN
        if paid > 1 + sum(trouble in may_be_paid for trouble in again):
            yield f"{job.custom_id} has {paid} results at the service after {again}"


def no_two_workers_write_to_one_place(facts: Facts, books: Books) -> Iterator[str]:
    """Each submission of a resumable job is a segment of its own, and none goes back behind what another one had."""
    places = Counter(fate.place for fate in facts.fates.values() if fate.place is not None)
    for (key, segment), n in places.items():
        if n > 1:
            yield f"{n} submissions of the job {key} are its segment {segment}"
    for job, given in books.given.items():
        if list(given) != sorted(given):
            yield f"the segments of job {job} began with the checkpoints {given}"


def no_crash_costs_a_try(facts: Facts, books: Books) -> Iterator[str]:
    """A job is given up as uncertain only after as many silences of the service as it has tries."""
    patient = {run.plan.name for run in facts.runs if run.plan.on_uncertain is not OnUncertain.FAIL}
    run_of = {job.id: job.run for job in books.jobs}
    for outcome in books.outcomes:
        silences = [row for row in books.events.get(outcome.job, ()) if row.event == Event.UNANSWERED]
        silences = [row for row in silences if not row.reason.endswith("ended before the answer came")]
        if outcome.trouble == "uncertain" and run_of[outcome.job] in patient and len(silences) <= 3:
            yield f"job {outcome.job} was given up after {len(silences)} submissions that the service did not answer"


def limits_are_kept(facts: Facts, _books: Books) -> Iterator[str]:
    """No window of the service's held more than the limit, however it counts; no 429 that no fault has made.

    What somebody else sends to the same limits nobody can know before a request is refused.
    """
    faults = facts.plan.faults
    is_shared = any(each.neighbour for each in (faults, *faults.spells))
    rates = {JobOperation.RUN: facts.plan.run_rate, JobOperation.STATUS: facts.plan.status_rate}
    if facts.plan.are_held:
        rates[JobOperation.RUNSYNC] = facts.plan.run_rate
    if facts.plan.batches is not None:
        rates[JobOperation.BATCH] = facts.plan.batch_rate
    for (endpoint, operation), figures in chain.from_iterable(
        gate.meters.all_figures().items() for gate in facts.gates
    ):
        limit, what = _limit(operation, rates), f"requests to /{operation} of {endpoint}"
        if figures.refused and not is_shared:
            yield f"{figures.refused} {what} were over the limit ({facts.plan.algorithm})"
        if limit.requests is not None and figures.window_max > limit.requests:
            yield f"{figures.window_max} {what} in one window of {limit.requests}"
        if limit.concurrent is not None and figures.concurrent_max > limit.concurrent:
            yield f"{figures.concurrent_max} {what} at once"


def _limit(operation: JobOperation, rates: Mapping[JobOperation, Rate]) -> OperationLimit:
    if operation in rates:
        rate = rates[operation]
        return OperationLimit(
            requests=rate.requests, window_us=round(rate.window_s * SECOND_US), concurrent=rate.concurrent
        )
    return CONTRACT_LIMITS[operation]


def the_time_scale_is_known(facts: Facts, books: Books) -> Iterator[str]:
    """What a service told of its time stands in the ledger a moment later, and nothing where it told nothing of it."""
    wanted = facts.plan.time_scale if facts.plan.scale_is_told else 1.0
    for endpoint in books.endpoints:
        accepted = [facts.moments.get(at, at) for at in endpoint.accepted_at]
        is_known = any(start <= at < end - KEPT_US for at in accepted for start, end in facts.lives)
        if endpoint.time_scale not in {wanted, 1.0} or (is_known and endpoint.time_scale != wanted):
            yield f"the time of {endpoint.name} was {wanted:g} times as fast, the ledger says {endpoint.time_scale:g}"


def nothing_that_was_told_is_paid_again(facts: Facts, books: Books) -> Iterator[str]:
    """A process that has got a result gives nobody up for good whose result it is; after a `/retry` it may be of either.

    What a process slept through may be taken up after the answer that it had asked for.
    """
    succeeded = {outcome.job for outcome in books.outcomes if outcome.trouble is None}
    for row in chain.from_iterable(books.events.values()):
        if row.trouble is None or row.event not in {Event.RETRIED, Event.ABANDONED}:
            continue
        if (row.event == Event.ABANDONED and row.job in succeeded) or is_no_result(facts, books, row):
            continue
        remote_id, fate = fate_of(facts, books, row)
        at = true_moment(facts, row)
        begun = max((start for start, _ in facts.lives if start <= at), default=0)
        if facts.plan.pool is not None and facts.plan.faults.slow_answer:
            continue  # who asks before it cancels takes no result: whoever collects does, whose question may hang
        if (
            fate is not None
            and len(fate.ends) == 1
            and any(begun <= told < at - SOON_US for told in facts.told.get(remote_id or "", ()))
        ):
            yield f"job {row.job} ({remote_id}) was given up as {row.trouble} by a process that had got its result"


def no_process_stops_for_a_moments_trouble(facts: Facts, books: Books) -> Iterator[str]:
    """Going on is pointless only once nothing but refusals has come for a minute, to a process of which a job was taken."""
    where = {run.plan.name: run.plan.where for run in facts.runs}
    accepted = [
        (where[job.run], true_moment(facts, row))
        for job in books.jobs
        for row in books.events.get(job.id, ())
        if row.event == Event.ACCEPTED
    ]
    for at, run in facts.stops:
        begun = max((start for start, _ in facts.lives if start <= at), default=at)  # a follower may come before all
        if not any(begun <= each < at - SOON_US for there, each in accepted if there == run.plan.where):
            continue  # a key that has never worked, or what a follower has read of the moments before it did
        if at - begun < POINTLESS_US or facts.up_us(at - POINTLESS_US, at) > SOON_US:
            yield f"a process stopped {(at - begun) / SECOND_US:.1f} s after it began, and the service was well"


def what_is_sure_stays_sure(facts: Facts, books: Books) -> Iterator[str]:
    """Where nothing is lost on the way, no submission is uncertain."""
    if facts.plan.sure and books.counts.get("uncertain_seen", 0):
        yield f"{books.counts['uncertain_seen']} submissions were uncertain in a world that loses nothing"


def what_is_called_lost_is_lost(facts: Facts, books: Books) -> Iterator[str]:
    """A job is lost only if the service really forgot it before its time, or its chunks, which are handed out once."""
    if any(each.size < 0 for each in facts.plan.of(FailureClass.CLOCK_JUMP)) or any(facts.plan.clocks):
        return  # a process that begins with an earlier clock cannot know how old the rows are that it finds
    for row in chain.from_iterable(books.events.values()):
        if row.trouble != "lost" or (facts.plan.yields and row.code == ReasonCode.NOTHING_YIELDED):
            continue
        remote_id, fate = fate_of(facts, books, row)
        if fate is not None and not fate.lost and not fate.is_failed_with_its_batch:
            gone = "still knew" if fate.forgotten_at is None else f"forgot in time ({len(fate.ends)} executions ended)"
            yield f"job {row.job} was declared lost, which the service {gone}: {remote_id}"


def no_secret_is_anywhere(facts: Facts, _books: Books) -> Iterator[str]:
    """Neither in a file of the run, but for the key's own, nor in anything that was shown or logged."""
    key = facts.ledger.with_name(facts.ledger.name + ".key")
    secrets = [secret.encode() for secret in SECRETS.values()]
    if key.exists():
        secrets += [key.read_bytes(), key.read_bytes().hex().encode()]
    places = {path.name: path.read_bytes() for path in facts.folder.iterdir() if path != key and path.is_file()}
    places["what people are told"] = b"\n".join(each.body for each in facts.heard)
    places["what was shown"] = "\n".join(facts.said).encode()
    for name, content in places.items():
        for secret in secrets:
            if secret in content:
                yield f"{name} holds the secret {secret!r}"


CHECKS: tuple[Check, ...] = (
    it_came_to_an_end,
    every_job_has_one_outcome,
    what_can_succeed_succeeds,
    events_replay,
    counts_agree,
    nothing_is_forgotten,
    nothing_is_paid_twice,
    no_two_workers_write_to_one_place,
    no_crash_costs_a_try,
    limits_are_kept,
    nothing_expired,
    the_time_scale_is_known,
    nothing_that_was_told_is_paid_again,
    no_process_stops_for_a_moments_trouble,
    what_is_sure_stays_sure,
    what_is_called_lost_is_lost,
    no_secret_is_anywhere,
    each_command_is_acknowledged_once,
    no_command_is_carried_out_twice,
    no_command_stands_there_twice,
    what_was_asked_last_holds,
    who_is_stopped_sends_nothing,
    the_rest_waits_for_the_canary,
    no_budget_is_passed,
    nothing_is_sent_that_brakes_hold,
    what_is_healthy_is_not_stopped,
    what_was_moved_had_not_begun,
    nobody_in_doubt_is_sent_anew_unasked,
    nothing_is_left_at_a_member,
    each_member_is_sent_jobs_by_its_own_lane,
    *OF_SCALING,
    *OF_PODS,
    *OF_BATCHES,
    *OF_CHUNKS,
    *OF_SAVES,
    *OF_ENGINES,
    *OF_FLOWS,
    no_counter_of_samples_falls,
    the_last_samples_say_what_the_ledger_says,
    every_message_that_is_owed_arrives,
    no_message_is_taken_twice,
    an_episode_is_one_message,
    who_wants_a_rest_has_it,
)


POSTED_CHECKS: tuple[Check, ...] = (
    it_came_to_an_end,
    events_replay,
    counts_agree,
    limits_are_kept,
    the_time_scale_is_known,
    no_secret_is_anywhere,
    *OF_POSTED,
    no_counter_of_samples_falls,
)
"""Of worlds whose runs are posted batches: in these, rows are called as programs like."""


def violations(facts: Facts) -> list[str]:
    """What is wrong, a sentence each; nothing where all is well."""
    books = read_books(facts.ledger)
    return [f"{check.__name__}: {text}" for check in _checks_of(facts) for text in check(facts, books)]


def violated(facts: Facts) -> set[str]:
    """The names of the checks that find something wrong."""
    books = read_books(facts.ledger)
    return {check.__name__ for check in _checks_of(facts) for _ in check(facts, books)}


def _checks_of(facts: Facts) -> tuple[Check, ...]:
    return CHECKS if facts.plan.posted is None else POSTED_CHECKS
