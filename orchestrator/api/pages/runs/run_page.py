"""One run: how it stands, what it costs, what fails, how it went, what was set."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from orchestrator.api.admin.brakes import brakes_beside
from orchestrator.api.inspect.status import runs_now
from orchestrator.api.outcomes.job_queries import failures_of
from orchestrator.api.pages.runs.command_lines import command_line
from orchestrator.api.pages.runs.payload_policy import PayloadPolicy, are_texts_hidden, kind_shown, message_shown
from orchestrator.api.pages.runs.run_charts import run_charts
from orchestrator.api.pages.runs.run_places import flow_place
from orchestrator.api.runs.job_progress import progress_of_jobs
from orchestrator.api.runs.run_costs import run_costs
from orchestrator.core.diagnosis.verdict import RunStanding
from orchestrator.core.gates.brake_gates import Brake
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_settings
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting, settings_in
from orchestrator.units import SECOND_US
from orchestrator.views.runs.run_pages import RunPage, SettingShown
from orchestrator.views.status import RunStatus

KINDS_SHOWN: Final = 8
PROGRESS_SHOWN: Final = 50

_SETTINGS: Final[tuple[Setting[Any], ...]] = tuple(
    each for each in settings_in(RunSettings) if each not in run_settings.BRAKES
)


async def run_page(
    ledger: Ledger, held_by: str | None, run: Run, *, shows: PayloadPolicy, window: str | None = None
) -> RunPage:
    """How `run` stands; `window` is of how much of its past. Raises `UsageError` for a window that there is none of."""
    now = ledger.now()
    [status] = await runs_now(ledger, held_by, among=[run.id], is_counted=False)
    verdict = status.verdict
    assert verdict is not None
    last_end = (await ledger.reports.run_list.ended_at([run.id])).get(run.id)
    ended_at = last_end if verdict.is_over else None
    took_s = max(0, (ended_at or now) - run.created_at) / SECOND_US
    costs = await run_costs(ledger, run, status.jobs)
    failures = await failures_of(ledger, run, KINDS_SHOWN, is_counted=False)
    brakes = await brakes_beside(ledger, run, status.jobs, costs)
    progress = await progress_of_jobs(ledger, run, PROGRESS_SHOWN) if run.settings.resumable else None
    return RunPage(
        status=status_shown(shows, status),
        flow=await flow_place(ledger, run.id),
        ended_at=ended_at,
        took_s=took_s,
        mean_per_s=verdict.done / took_s if verdict.done and took_s >= 1 else None,
        failed_share=verdict.failed / verdict.done if verdict.done else None,
        spent=costs.spent,
        at_end=costs.at_end if verdict.left else None,
        budget=run.settings.budget or None,
        finish_by=run.settings.finish_by or None,
        kinds=failures.kinds,
        clusters=[kind_shown(shows, each) for each in failures.clusters],
        brakes=tuple(_brakes(run, brakes.settings)),
        breaker=brakes.breaker,
        breaker_why=message_shown(shows, brakes.breaker_why),
        may_go_past=verdict.standing is RunStanding.ON_HOLD and brakes.gate not in (Brake.BUDGET, Brake.DEADLINE),
        canary=brakes.canary,
        is_resumable=run.settings.resumable,
        progress=()
        if progress is None
        else tuple(msgspec.structs.replace(each, message=message_shown(shows, each.message)) for each in progress.jobs),
        charts=await run_charts(ledger, run, window=window, ended_at=ended_at),
        settings=settings_shown(run.settings),
        command=command_line(ledger.address, "status", run.name),
        texts_hidden=are_texts_hidden(shows),
    )


def status_shown(shows: PayloadPolicy, status: RunStatus) -> RunStatus:
    """How a run stands, without what workers said where that is not to be shown: a brake repeats it."""
    if not are_texts_hidden(shows) or status.verdict is None:
        return status
    verdict = msgspec.structs.replace(status.verdict, sentence=status.verdict.brief)
    retried = tuple(
        msgspec.structs.replace(each, sample=message_shown(shows, each.sample) or "") for each in status.largest_retried
    )
    return msgspec.structs.replace(status, verdict=verdict, held_up=None, finding=None, largest_retried=retried)


def _brakes(run: Run, written: Mapping[str, str]) -> Iterator[SettingShown]:
    for each in run_settings.BRAKES:
        is_default = getattr(run.settings, each.name) == getattr(RunSettings(), each.name)
        yield SettingShown(key=each.key, value=written[each.key], is_default=is_default)


def settings_shown(settings: RunSettings) -> Sequence[SettingShown]:
    """What was set of a run, and then what was not; of who is told of it only the host, for the rest may be secret."""
    usual = RunSettings()
    found = [
        SettingShown(
            key=each.key,
            value=_text(each, getattr(settings, each.name)),
            is_default=getattr(settings, each.name) == getattr(usual, each.name),
        )
        for each in _SETTINGS
    ]
    found += [
        SettingShown(key=each.key, value=_text(each, value), is_default=value is None)
        for each in job_policy.POLICY
        for value in [getattr(settings.policy, each.name)]
    ]
    return tuple(sorted(found, key=lambda each: each.is_default))


def _text(setting: Setting[Any], value: Any) -> str:
    if value is None or value == ():
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    if setting is run_settings.NOTIFY:
        return _without_secrets(str(value))
    return " ".join(setting.value_type.write(value))


def _without_secrets(told: str) -> str:
    """Of a URL its host, of a command its first word; the name of a variable as it is."""
    scheme, separator, rest = told.partition("://")
    if separator:
        return f"{scheme}://{rest.split('/')[0].rpartition('@')[2]}/…"
    return told if told.startswith("env:") else f"{told.split(' ', maxsplit=1)[0]} …"
