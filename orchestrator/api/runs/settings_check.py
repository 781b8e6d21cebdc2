"""Whether the settings of a run can be used at all: what they name is there, and they agree with one another, with its
endpoint, and with who is to reach that.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from orchestrator.core.jobs.escalation_text import problems_of
from orchestrator.core.lanes.via import Via
from orchestrator.core.outputs.save_rules import SaveRule, format_save
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.service.addresses import leads_to_loopback
from orchestrator.core.service.profiles import is_same_account
from orchestrator.core.service.url_endpoints import PODS, is_pods, is_url
from orchestrator.engine.collecting.output_validator import validator_of
from orchestrator.engine.ports.local_endpoints import is_local
from orchestrator.errors import UsageError
from orchestrator.formats.output.saved_objects import place_fault
from orchestrator.formats.templates.field_templates import template_of
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.connection_settings import whose
from orchestrator.settings.outputs.save_settings import SAVE
from orchestrator.settings.run_checks import WORKER_SETTINGS, changes_workers, check_lanes
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import DisplayName
from orchestrator.settings.words_and_defaults import LOCAL


def check_usable(settings: RunSettings, name: DisplayName = str) -> None:
    """Raises `UsageError` where they cannot; `name` is how a setting is named."""
    validator_of(settings)
    check_saves(settings.save, name)
    if problem := problems_of(settings.escalate, max_attempts=settings.max_attempts):
        raise UsageError(f"{name(run_settings.ESCALATE)}: {problem}")
    for rule in settings.escalate:
        for field, text in (template for step in rule.steps for template in step.templates):
            try:
                template_of(text)
            except ValueError as error:
                raise UsageError(f"{name(run_settings.ESCALATE)}: map {field}={text}: {error}") from None


def check_saves(rules: Sequence[SaveRule], name: DisplayName = str) -> None:
    """Raises `UsageError` where members of outputs cannot be saved to where `rules` say."""
    for rule in rules:
        if rule.is_of_flow:
            raise UsageError(
                f"{name(SAVE)} {format_save(rule)}: only a pipeline fills in what is of a flow; leave it out"
            )
    for folder, rule in {rule.folder: rule for rule in rules}.items():  # a store is asked once
        if (fault := place_fault(folder)) is not None:
            raise UsageError(f"{name(SAVE)} {format_save(rule)}: {fault}; choose another place")


def check_run_endpoint(
    settings: RunSettings, endpoint: str, members: Sequence[MemberSettings], name: DisplayName = str
) -> None:
    """Raises `UsageError` where a run with these settings cannot be at `endpoint`, or at the `members` of its pool;
    `name` is how a setting is named.
    """
    if settings.worker_range is not None and is_local(endpoint):
        raise UsageError(
            f"{name(run_settings.WORKERS)} auto is for endpoints of the service, and {endpoint} is a function of yours;"
            " leave it out"
        )
    template = settings.pod_template
    if is_pods(endpoint) and (template is None or endpoint != f"{PODS}{template.name}"):
        raise UsageError(f"{endpoint} is pods of a template, and the run is not for these; begin another one for them")
    if template is not None and not is_pods(endpoint):
        raise UsageError(f"the run is for pods of the template {template.name}, and {endpoint} is none of these")
    settings = replace(settings, members=tuple(members))
    check_lanes(settings, name)
    for each in [member.endpoint for member in members] or [endpoint]:
        _check_lane_at(each, settings.at(each), name)


def check_rows_fit(run: Run, members: Sequence[MemberSettings], cure: str) -> None:
    """Raises `UsageError` where jobs of `run`, whose input is not read again, would leave by a lane for which its rows
    were not checked, as these are the `members` of its pool from now on. `cure` is what helps, in words.
    """
    checked = {*run.settings.vias}
    if not checked.isdisjoint({Via.QUEUE, Via.BOTH}):
        checked |= {Via.QUEUE, Via.SYNC, Via.BOTH}  # what may leave by /run may by any of them
    further = [via for via in replace(run.settings, members=tuple(members)).vias if via not in checked]
    if further:
        raise UsageError(
            f"the rows of {run.name} were checked for {' and '.join(run.settings.vias)}, and this pool sends them by"
            f" {further[0]}, too; {cure}"
        )


def _check_lane_at(endpoint: str, settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where jobs cannot leave for `endpoint` by the lane of the run's `settings` there."""
    if not is_url(endpoint):
        if settings.via is Via.HTTP:
            raise UsageError(
                f"{name(run_settings.VIA)} {Via.HTTP} is for a server at a URL, and {endpoint} is none; give its URL as"
                f" {run_request.ENDPOINT}"
            )
        _check_has_batches(settings, endpoint, name)
        return
    if settings.via.has_queue:
        its_own = "" if not settings.members else f" or a {run_settings.VIA.key} in its table of the configuration file"
        raise UsageError(
            f"{endpoint} is a URL, and what is there has no queue; say how it takes requests, with"
            f" <setting via={Via.OPENAI}> or <setting via={Via.HTTP}>{its_own}"
        )
    for setting in WORKER_SETTINGS:
        if changes_workers(settings, setting):
            raise UsageError(f"{name(setting)} is for endpoints of the service, and {endpoint} is a URL; leave it out")


def check_not_planned(settings: RunSettings, name: DisplayName = str) -> None:
    """Raises `UsageError` where something is said of a run that is for plans only."""
    if isinstance(settings.workers, int):
        raise UsageError(
            f"{name(run_settings.WORKERS)} {settings.workers} is what a plan goes by; for a run, write"
            f" {name(run_settings.WORKERS)} auto:MIN-MAX, or {name(run_settings.WORKERS_MAX)} {settings.workers}"
        )


def _check_has_batches(settings: RunSettings, endpoint: str, name: DisplayName) -> None:
    if settings.via is Via.BATCH and (is_local(endpoint) or is_pods(endpoint)):
        raise UsageError(
            f"{name(run_settings.VIA)} {Via.BATCH} is for endpoints of the service; {endpoint} has no batches"
        )


def check_account(run: Run, request: RunRequest) -> None:
    """Raises `UsageError` where `run` is of another account than the one whose key `request` has: there nobody knows
    its jobs.
    """
    if run.service_url == LOCAL or (request.endpoint is not None and is_local(request.endpoint)):
        return
    if not is_same_account(run.service_url, request.connection.serverless_url):
        raise UsageError(f"the run {run.name!r} {whose(run.service_url)}; nothing was sent")


def check_reach(run: Run, request: RunRequest) -> None:
    """What a `resume` can only know now that the run is known. Raises `UsageError`."""
    if run.service_url == LOCAL:
        return
    connection = request.connection
    check_account(run, request)
    if run.is_at_url:
        connection.check_reach(run.endpoint)
        return
    if not connection.api_key:
        raise UsageError("there is no API key; set it in the environment: export ORCHESTRATOR_API_KEY=...")
    if connection.listen is not None and connection.webhook_url is None and not leads_to_loopback(run.service_url):
        raise UsageError(
            "<setting listen> needs <setting webhook-url>: under which URL does the service reach the listener?"
        )
