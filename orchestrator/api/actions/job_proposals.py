"""What is asked of some jobs of a run: to be tried again, or to be cancelled."""

from datetime import UTC, datetime
from typing import Any, Final

from orchestrator.api.actions.proposal import (
    Proposal,
    ProposalRequest,
    named_resume_command,
    once_at_work,
    typed_command,
)
from orchestrator.api.actions.run_proposals import run_meant
from orchestrator.api.outcomes.job_queries import JobsPreview, filter_of, jobs_preview, where_of
from orchestrator.api.pages.runs.payload_policy import check_filter, row_shown
from orchestrator.api.runs.process_commands import cancel_jobs, retry
from orchestrator.core.filters.filter import EVERY, ClusterIs, Filter, RetriedFor
from orchestrator.core.lanes.via import Via
from orchestrator.core.text.figures import lasting, money
from orchestrator.core.text.wording import counted, shortened
from orchestrator.engine.commands.cancel_jobs import IS_UNFINISHED
from orchestrator.engine.commands.retry_jobs import GIVEN_UP
from orchestrator.errors import UsageError
from orchestrator.ledger.actions.action_rows import Act, SubjectKind
from orchestrator.ledger.commands.command_types import Action
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.parsers.name_parsers import is_endpoint_name
from orchestrator.settings.setting import Setting
from orchestrator.units import SECOND_US
from orchestrator.views.actions import AskedField

INPUTS_MAX: Final = 200_000
"""So many inputs are read for a count; whoever means more of them by what is in their inputs uses the command line."""

SAMPLE_CHARS: Final = 100

OWN: Final[tuple[Setting[Any], ...]] = (
    job_policy.EXECUTION_TIMEOUT,
    run_settings.MAX_ATTEMPTS,
    run_request.ENDPOINT,
)
"""What jobs can be given of their own when they are tried again."""


async def retry_jobs(request: ProposalRequest) -> Proposal:
    """Failed and cancelled jobs are queued again: all of the run, those of a filter, or of a kind."""
    run = await run_meant(request.ledger, request.number)
    given = request.text("where")
    where = await where_of(request.ledger, run, given, request.text("cluster") or None)
    check_filter(request.shows, chosen := filter_of(where, now=request.now))
    ended = request.text("until") or _moment(request.now)
    counted_where = f"ended<={ended} ({where})" if where.strip() else f"ended<={ended}"
    found = await jobs_preview(request.ledger, run, counted_where, of=GIVEN_UP, inputs_max=INPUTS_MAX)
    own, problem = _own(request)
    choice = RetryChoice(where=counted_where, **own)
    words = [f"{setting}={request.text(setting.key)}" for setting in OWN if request.text(setting.key)]
    filter_words = ["--where", where] if where.strip() else []
    return Proposal(
        act=Act(verb=Action.RETRY, subject=SubjectKind.RUN, number=run.id, name=run.name, where=where),
        do=lambda given: retry(request.path, run.name, given, chosen=choice),
        title=f"Try jobs of {run.name} again?",
        button=f"Try {counted(found.count, 'job')} again",
        command=typed_command(request.path, "retry", run.name, *filter_words, *words),
        says=(_which(chosen, where, "They are all that have failed or were cancelled."), *_LATER),
        paid=_paid(run, found),
        when=once_at_work(request.holder, await named_resume_command(request.ledger, run.id, run.name)),
        count=found.count,
        sample=_sample(request, found),
        inputs=tuple(
            AskedField(name=each.key, label=_LABELS[each.key], value=request.text(each.key), note=_NOTES[each.key])
            for each in OWN
        ),
        hidden={"where": where, "until": ended},
        problem=problem or _problem(found, "has failed or was cancelled"),
    )


IN_BATCHES: Final = (
    "What is in a batch at the service cannot be taken out of it: what is executed of it is billed, and results count."
)

IN_CHUNKS: Final = "What travels at the service with rows that are to go on ends with these, and its result counts."


async def cancel_some(request: ProposalRequest) -> Proposal:
    """Jobs without an outcome are cancelled, here and at the service: those of a filter, or all."""
    run = await run_meant(request.ledger, request.number)
    where = request.text("where")
    check_filter(request.shows, chosen := filter_of(where, now=request.now))
    found = await jobs_preview(request.ledger, run, where, of=IS_UNFINISHED, inputs_max=INPUTS_MAX)
    filter_words = ["--where", where] if where else []
    return Proposal(
        act=Act(verb=Action.CANCEL_JOBS, subject=SubjectKind.RUN, number=run.id, name=run.name, where=where),
        do=lambda given: cancel_jobs(request.path, run.name, where, given),
        title=f"Cancel jobs of {run.name}?",
        button=f"Cancel {counted(found.count, 'job')}",
        command=typed_command(request.path, "jobs", "cancel", run.name, *filter_words),
        says=(
            _which(chosen, where, "They are all that have no outcome yet."),
            "Results that still arrive count; what ends meanwhile is not cancelled.",
            *((IN_BATCHES,) if run.settings.via is Via.BATCH else ()),
            *((IN_CHUNKS,) if run.settings.chunk is not None else ()),
        ),
        paid="What a worker has done by then is paid. Who has one tried again later pays for it again.",
        when=once_at_work(request.holder, await named_resume_command(request.ledger, run.id, run.name)),
        count=found.count,
        may_shrink=True,
        sample=_sample(request, found),
        typed=None if where else run.name,
        hidden={"where": where},
        problem=_problem(found, "has no outcome yet"),
    )


_LATER: Final = ("Their attempts are counted from the first again. What fails from now on is not among them.",)

_LABELS: Final = {
    job_policy.EXECUTION_TIMEOUT.key: "Longest execution",
    run_settings.MAX_ATTEMPTS.key: "Executions at most",
    run_request.ENDPOINT.key: "Endpoint",
}
_NOTES: Final = {
    job_policy.EXECUTION_TIMEOUT.key: "As 30m; empty: as the run has it.",
    run_settings.MAX_ATTEMPTS.key: "Empty: as the run has it.",
    run_request.ENDPOINT.key: "The id of another one of the same service; empty: the run's own.",
}


def _which(chosen: Filter, where: str, all_of_them: str) -> str:
    """Which jobs are `chosen` by `where`, in words."""
    if chosen == EVERY:
        return all_of_them
    match chosen:
        case ClusterIs():
            return "They have all failed in the same way."
        case RetriedFor():
            return "Of each an execution failed in the same way, and it waits to be tried again, or is under way again."
        case _:
            return f"They are {where}."


def _moment(now: int) -> str:
    """The end of this second, as a filter has it: what ends from then on is not meant, so that the count stays."""
    return datetime.fromtimestamp(now // SECOND_US + 1, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _own(request: ProposalRequest) -> tuple[dict[str, Any], str]:
    """What the form gives the jobs of their own, and what cannot be read of it."""
    own: dict[str, Any] = {}
    for setting in OWN:
        if text := request.text(setting.key):
            try:
                own[setting.name] = setting.value_type.read((text,))
            except (ValueError, UsageError) as error:
                return own, f"{_LABELS[setting.key]}: {error}"
    endpoint = own.get(run_request.ENDPOINT.name)
    if endpoint is not None and is_endpoint_name(endpoint):
        return own, f"{endpoint} is a name: only the command line can ask the account for its id."
    return own, ""


def _paid(run: Run, found: JobsPreview) -> str:
    if not found.is_paid:
        return "Nothing is paid: it runs on this machine."
    each = f"Each of these {counted(found.count, 'job')} is executed, and paid, once more at least."
    if found.execution_s is None:
        return each
    price = run.settings.price
    cost = "" if price is None else f", which costs about {money(price * found.execution_s)}"
    return f"{each} Their last executions took {lasting(found.execution_s)} in all{cost}."


def _sample(request: ProposalRequest, found: JobsPreview) -> tuple[str, ...]:
    shown = (row_shown(request.shows, job) for job in found.sample)
    return tuple(f"{job.custom_id}: {shortened(job.error or job.class_ or job.state, SAMPLE_CHARS)}" for job in shown)


def _problem(found: JobsPreview, which: str) -> str:
    if not found.is_exact:
        return f"More than {INPUTS_MAX:,} inputs would be read to count these: use the command, or another filter."
    return "" if found.count else f"No job like that {which}: there is nothing to do."
