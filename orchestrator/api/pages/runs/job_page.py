"""One job: what it is given and gave, what happened to it, its attempts as bars, its kin, and the next that failed."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from orchestrator.api.pages.runs.command_lines import command_line
from orchestrator.api.pages.runs.job_attempts import attempts_of, longest_s
from orchestrator.api.pages.runs.payload_policy import (
    PayloadPolicy,
    are_texts_hidden,
    message_shown,
    payload_shown,
    row_shown,
    text_shown,
)
from orchestrator.api.pages.runs.run_places import flow_place_of
from orchestrator.core.filters.filter_parser import cluster_key
from orchestrator.core.jobs.lifecycle import TERMINAL, State
from orchestrator.core.text.durations import decode_policy
from orchestrator.core.text.tracebacks import tracebacks_in
from orchestrator.ledger import Ledger
from orchestrator.ledger.flows.lineage import Kin
from orchestrator.ledger.reports.run_list import FlowOfRun
from orchestrator.ledger.runs.runs import Run
from orchestrator.views.jobs import WholeJob
from orchestrator.views.runs.run_pages import JobDeadlines, JobShown, Relative, ShownText

STEPS_FIRST: Final = 20
STEPS_LAST: Final = 180
"""Of a long timeline its beginning and its end are shown."""

KIN_SHOWN: Final = 100

TRACEBACKS_MAX: Final = 5


async def job_page(ledger: Ledger, run: Run, number: int, *, shows: PayloadPolicy) -> JobShown | None:
    """The job of `run` that has this number; None where it has none."""
    job = await ledger.reports.job_details.numbered(run, number)
    if job is None:
        return None
    shown = _without_payloads(job, shows)
    attempts = attempts_of(msgspec.structs.replace(job, failed_executions=shown.failed_executions), run.created_at)
    part = (await ledger.reports.run_list.flows_of([run.id])).get(run.id)
    made_of, became = ((), ()) if part is None else await _kin(ledger, part, job)
    error = message_shown(shows, job.error)
    state = State(job.job.state)
    kind = None if job.job.cluster is None else cluster_key(job.job.cluster)
    return JobShown(
        id=run.id,
        job=shown,
        input=payload_shown(shows, "input", _bytes(job.input)),
        output=payload_shown(shows, "output", _bytes(job.output)),
        metadata=payload_shown(shows, "metadata", _bytes(job.metadata)),
        error=ShownText(text=None, size=0) if error is None else text_shown(error),
        tracebacks=[] if are_texts_hidden(shows) else [
            text for each in tracebacks_in(job.error or "")[:TRACEBACKS_MAX] if (text := text_shown(each).text)
        ],
        attempts=attempts,
        longest_s=longest_s(attempts),
        deadlines=_deadlines(run, job, state),
        policy=None if job.policy is None else bytes(job.policy).decode(),
        more_steps=max(0, len(job.timeline) - STEPS_FIRST - STEPS_LAST),
        flow=None if part is None else flow_place_of(part),
        made_of=made_of,
        became=became,
        next_failed=await ledger.reports.failed_jobs.next(run.id, job.job),
        next_of_kind=None if kind is None else await ledger.reports.failed_jobs.next(run.id, job.job, kind=kind),
        command=command_line(ledger.address, "jobs show", run.name, job.job.custom_id),
        texts_hidden=are_texts_hidden(shows),
    )  # fmt: skip


def _deadlines(run: Run, job: WholeJob, state: State) -> JobDeadlines | None:
    latest = job.submissions[-1] if job.submissions else None
    if latest is not None and latest.batch is not None:
        return None
    ttl_at = None if latest is None or state in TERMINAL else latest.ttl_at
    return JobDeadlines(execution_timeout_ms=_timeout_ms(run, job), ttl_at=ttl_at)


async def job_payload(ledger: Ledger, run: Run, number: int, part: str, *, shows: PayloadPolicy) -> bytes | None:
    """The whole of a job's `input`, `output`, `metadata` or `error`, as far as it may be shown; None where there is
    none, or nothing of it may.
    """
    job = await ledger.reports.job_details.numbered(run, number)
    if job is None:
        return None
    if part == "error":
        said = message_shown(shows, job.error)
        return None if said is None else said.encode("utf-8", "replace")
    raw = _bytes({"input": job.input, "output": job.output, "metadata": job.metadata}[part])
    return None if raw is None else shows.shown(part, raw)


def _bytes(value: msgspec.Raw | str | None) -> bytes | None:
    if value is None:
        return None
    return value.encode("utf-8", "replace") if isinstance(value, str) else bytes(value)


def _without_payloads(job: WholeJob, shows: PayloadPolicy) -> WholeJob:
    timeline = job.timeline
    if len(timeline) > STEPS_FIRST + STEPS_LAST:
        timeline = [*timeline[:STEPS_FIRST], *timeline[-STEPS_LAST:]]
    if are_texts_hidden(shows):
        timeline = [msgspec.structs.replace(step, reason="") for step in timeline]
    return msgspec.structs.replace(
        job,
        job=row_shown(shows, job.job),
        input=None,
        output=None,
        metadata=None,
        error=None,
        timeline=timeline,
        failed_executions=[
            msgspec.structs.replace(each, error=message_shown(shows, each.error) or "")
            for each in job.failed_executions[-STEPS_LAST:]
        ],
        segments=[
            msgspec.structs.replace(each, message=message_shown(shows, each.message))
            for each in job.segments[-STEPS_LAST:]
        ],
        submissions=job.submissions[-STEPS_LAST:],
    )


def _timeout_ms(run: Run, job: WholeJob) -> int:
    own = None if job.policy is None else decode_policy(bytes(job.policy)).execution_timeout_ms
    return run.settings.policy.timeout_ms if own is None else own


# --- kin


async def _kin(ledger: Ledger, part: FlowOfRun, job: WholeJob) -> tuple[Sequence[Relative], Sequence[Relative]]:
    """What the job was made of, and what was made of it, through all stages of its flow."""
    stages = {each.run: each.stage for each in await ledger.flows.stages([part.flow]) if each.run is not None}
    kin = {each.job: each for each in await ledger.flows.lineage.kin([part.run], job.job.custom_id)}
    parents = await ledger.flows.lineage.parents(kin)
    children: dict[int, list[int]] = {}
    for child, of in parents.items():
        for parent in of:
            children.setdefault(parent, []).append(child)
    own = job.job.job

    def relatives(numbers: Iterator[int]) -> Sequence[Relative]:
        found = [kin[number] for number in numbers if number in kin]
        return [_relative(each, stages) for each in found[:KIN_SHOWN]]

    return relatives(_reached(own, parents)), relatives(_reached(own, children))


def _reached(start: int, ways: Mapping[int, Sequence[int]]) -> Iterator[int]:
    """All that can be reached from `start`, the nearest first, without it."""
    known, edge = {start}, [start]
    while edge:
        edge = list(dict.fromkeys(each for at in edge for each in ways.get(at, ()) if each not in known))
        known.update(edge)
        yield from edge


def _relative(row: Kin, stages: Mapping[int, str]) -> Relative:
    return Relative(stage=stages.get(row.run, ""), run=row.run, job=row.job, custom_id=row.custom_id, state=row.state)
