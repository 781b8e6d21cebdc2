"""`orchestrator retry`, which also is a verb of `runs` and `jobs`: failed and cancelled jobs are queued again."""

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orchestrator.api.runs.next_command import next_command
from orchestrator.cli.framework import flags
from orchestrator.cli.framework.endpoint_names import id_at
from orchestrator.cli.framework.runner import at_ledger
from orchestrator.cli.framework.service_access import Yes, confirm
from orchestrator.cli.output import streams
from orchestrator.cli.runs.control import JSON, show_control
from orchestrator.core.service.failure_class import FailureClass
from orchestrator.core.text.figures import lasting
from orchestrator.core.text.wording import counted, shortened
from orchestrator.errors import UsageError
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_requests import RetryChoice
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.parsers.name_parsers import is_endpoint_name
from orchestrator.settings.run_request import Configuration
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import Choices
from orchestrator.views.status import RunControl

if TYPE_CHECKING:
    from orchestrator.api.outcomes.job_queries import JobsPreview  # at run time `--help` would pay for it

SETTABLE: Final[dict[str, Setting[Any]]] = {
    setting.key: setting
    for setting in (
        job_policy.EXECUTION_TIMEOUT,
        job_policy.TTL,
        run_settings.MAX_ATTEMPTS,
        run_request.ENDPOINT,
    )
}
"""What jobs can have of their own when they are tried again."""

SAMPLE_WIDTH: Final = 100

Cluster = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="N",
        help="Of this kind of failures: its number or its name in [bold]orchestrator failures[/].",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help=f"With this setting of their own: {', '.join(SETTABLE)}."),
]

_OWN: Final = {
    "endpoint": flags.flag(run_request.ENDPOINT, "At this endpoint of the run's service."),
    "max_attempts": flags.flag(run_settings.MAX_ATTEMPTS, "Each of them may be executed so often from now on."),
}


@at_ledger(JSON, **_OWN)
async def retry(
    name: flags.RunName,
    where: flags.Where = "",
    cluster: Cluster = None,
    settings: Set = None,
    yes: Yes = False,
    *,
    choices: Choices,
    ledger: LedgerAddress,
    as_json: bool,
) -> None:
    """Queue failed and cancelled jobs of a run again.

    They get fresh counters; all of them, or those of a filter.

    Example: orchestrator retry prompts --where class=timed_out
    """
    from orchestrator.api.inspect.status import show
    from orchestrator.api.outcomes.job_queries import retry_preview
    from orchestrator.api.runs.process_commands import retry

    own = _settings(settings or (), choices)
    preview = await retry_preview(ledger, name, where, cluster)
    if not preview.count:
        if where.strip() or cluster is not None:
            raise UsageError(f"{preview.run} has no failed or cancelled jobs like that; nothing was done")
        await _nothing(preview.run, ledger, as_json=as_json)
        return
    run = await show(ledger, preview.run)
    its_endpoint = own.get(run_request.ENDPOINT.name)
    if its_endpoint is not None and is_endpoint_name(its_endpoint):
        own[run_request.ENDPOINT.name] = await id_at(run.service_url, its_endpoint, choices)
    cost = "" if preview.execution_s is None else f"; their last executions took {lasting(preview.execution_s)} in all"
    what = "executed, and paid," if preview.is_paid else "executed"
    streams.say(f"{what} once more at least: {counted(preview.count, 'job')}{cost}")
    for line in sample_lines(preview):
        streams.say(line)
    confirm(f"queue {counted(preview.count, 'job')} of {preview.run} again?", yes=yes)
    found = await retry(ledger, preview.run, chosen=RetryChoice(where=preview.where, **own))
    show_control(found, f"to try {counted(preview.count, 'job')} again", as_json=as_json)
    if found.holder is None and not found.has_ended and not as_json:
        streams.say(f"start it: {start_command(found, run.service_url, ledger, choices.configuration)}")


def start_command(found: RunControl, service_url: str, ledger: LedgerAddress, configuration: Configuration) -> str:
    """What works on the run; where it is a stage's, the other stages of its flow go on, too."""
    starting = partial(next_command, ledger=ledger, given=configuration)
    is_alone = found.flow is None
    return starting("resume", found.run, service_url=service_url) if is_alone else starting("tick", None)


async def _nothing(name: str, ledger: LedgerAddress, *, as_json: bool) -> None:
    from orchestrator.api.inspect.status import show

    told = f"{name} has no failed or cancelled jobs; nothing to retry"
    if as_json:
        run = await show(ledger, name)
        streams.put_json(
            RunControl(run=name, paused=run.paused, cancelled=run.cancelled, holder=run.held_by, outcome=told)
        )
    streams.say(told)


def _settings(given: Sequence[str], choices: Choices) -> dict[str, Any]:
    """The settings by the names of their fields, which may be `given` as KEY=VALUE. Raises `UsageError`."""
    told = (each for each in (run_request.ENDPOINT, run_settings.MAX_ATTEMPTS) if choices.is_from_flag(each))
    texts = [*(f"--set {each}" for each in given), *(f"{each}={choices.text(each)}" for each in told)]
    found: dict[str, Any] = {}
    for each in texts:
        key, equals, value = each.removeprefix("--set ").removeprefix("--").partition("=")
        setting = SETTABLE.get(key.strip())
        if setting is None or not equals:
            known = ", ".join(f"{name}=..." for name in SETTABLE)
            raise UsageError(f"{each}: what jobs can have of their own is {known}")
        try:
            found[setting.name] = setting.value_type.read([value])
        except ValueError as error:
            raise UsageError(f"{each}: {error}") from None
    return found


def failed_with(trouble: str | None, error: str, chars_max: int = SAMPLE_WIDTH) -> str:
    """Which trouble a job had, and what was said of it. That it failed goes without saying where there is a message."""
    said = shortened(error, chars_max)
    return f"{trouble}: {said}" if trouble not in {None, FailureClass.FAILED} and said else said or trouble or ""


def sample_lines(preview: "JobsPreview") -> Iterator[str]:
    """The first of the jobs, and how many more there are."""
    for job in preview.sample:
        yield f"  {job.custom_id}, {failed_with(job.class_, job.error or '', SAMPLE_WIDTH) or job.state}"
    if preview.count > len(preview.sample):
        yield f"  ... and {preview.count - len(preview.sample):,} more"
