"""Whether the settings of a run agree with one another."""

from collections.abc import Iterable
from typing import Any, Final

from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import Operation
from orchestrator.core.pools.member import Prefer
from orchestrator.core.text.figures import money
from orchestrator.core.text.wording import counted
from orchestrator.errors import UsageError
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.lanes import lane_settings
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.parsers.job_parsers import format_workers
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import DisplayName, Setting
from orchestrator.units import HOUR_US, SECOND_US


def check_together(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where settings contradict each other; `name` is how one is named."""
    least, most = settings.workers_min, settings.workers_max
    if least is not None and most is not None and least > most:
        raise UsageError(
            f"{name(run_settings.WORKERS_MIN)} {least} is more than {name(run_settings.WORKERS_MAX)} {most}"
        )
    _check_auto(settings, name)
    _check_resumable(settings, name)
    check_lanes(settings, name)
    check_brakes(settings, name)
    _check_pool(settings, name)
    if settings.pods is not None and settings.pod_template is None:
        raise UsageError(
            f"{name(run_settings.PODS)} needs to know what pods; give {name(run_request.POD_TEMPLATE)}, too"
        )


WORKER_SETTINGS: Final[tuple[Setting[Any], ...]] = (
    run_settings.WORKERS,
    run_settings.WORKERS_MIN,
    run_settings.WORKERS_MAX,
)
"""By which a run has its endpoint's workers changed."""


def changes_workers(settings: RunSettings, setting: Setting[Any]) -> bool:
    """Whether the run has that wish about workers; a mere number is what a plan goes by."""
    value = getattr(settings, setting.name)
    return value is not None and not (setting is run_settings.WORKERS and isinstance(value, int))


def _check_auto(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where workers are to follow what is needed, and something else says how many there are."""
    found, least = settings.worker_range, settings.workers_min
    if found is None:
        return
    if settings.via is Via.BATCH:
        raise UsageError(
            f"{name(run_settings.WORKERS)} {format_workers(found)} is for the endpoint's own workers, and"
            f" {name(run_settings.VIA)} {settings.via} leaves it to the service who executes a batch; leave one out"
        )
    if settings.workers_max not in (None, found.most):
        raise UsageError(
            f"{name(run_settings.WORKERS)} {format_workers(found)} and {name(run_settings.WORKERS_MAX)}"
            f" {settings.workers_max} say two things; leave one out"
        )
    if least is not None and least > found.least:
        raise UsageError(
            f"{name(run_settings.WORKERS_MIN)} {least} is more than the {found.least} of {name(run_settings.WORKERS)}"
            f" {format_workers(found)}"
        )


def _check_pool(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where the members of a pool cannot be one."""
    if not settings.members:
        return
    for setting in WORKER_SETTINGS:
        if changes_workers(settings, setting):
            raise UsageError(f"{name(setting)} is for a run at one endpoint, and not for a pool; leave it out")
    unpriced = [each.endpoint for each in settings.members if settings.price_at(each.endpoint) is None]
    if settings.prefer is Prefer.CHEAP and 0 < len(unpriced) < len(settings.members):
        raise UsageError(
            f"{name(run_settings.PREFER)} {Prefer.CHEAP} needs the price of {unpriced[0]}, too: give its"
            f" [endpoints.{unpriced[0]}] a {run_settings.PRICE_PER_SECOND.key}; without any prices the members are"
            " taken in the order in which they are named"
        )


def check_lanes(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where something is said of jobs that one of their lanes does not take, or where no row fits
    all the lanes of a pool.
    """
    _check_path(settings, name)
    _check_past_the_queue(settings, name)
    _check_sync(settings, name)
    _check_batch(settings, name)
    _check_chunk(settings, name)
    by_openai, by_http = _lane(settings, name, Via.OPENAI), _lane(settings, name, Via.HTTP)
    if by_openai is not None and by_http is not None:
        raise UsageError(
            f"{by_openai} takes requests of OpenAI's interface, and {by_http} an input as it stands: no row is both;"
            " make two pools of them"
        )


def _lane(settings: RunSettings, name: DisplayName, *meant: Via) -> str | None:
    """How the first of these lanes is called by which jobs leave; None where they leave by none of them."""
    if settings.via in meant and settings.via in settings.vias:
        return f"{name(run_settings.VIA)} {settings.via}"
    own = ((each.endpoint, settings.at(each.endpoint).via) for each in settings.members)
    return next((f"{run_settings.VIA.key} {via} of {endpoint}" for endpoint, via in own if via in meant), None)


def _check_path(settings: RunSettings, name: DisplayName) -> None:
    if settings.path and Via.HTTP not in settings.vias:
        raise UsageError(f"{name(run_settings.PATH)} is for {run_settings.VIA} {Via.HTTP}; give that, too")
    for each in settings.members:
        if each.path is not None and settings.at(each.endpoint).via is not Via.HTTP:
            raise UsageError(
                f'the {run_settings.PATH.key} of {each.endpoint} is for {run_settings.VIA.key} = "{Via.HTTP}"; give its'
                " table that, too"
            )


def _check_past_the_queue(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where requests are to go past the queue, and something is said of them that only it knows. In
    a pool with queues as well a wish about waiting holds there; past the queue nothing waits.
    """
    via = _lane(settings, name, *(each for each in Via if not each.has_queue))
    if via is None:
        return
    has_queue = any(each.has_queue for each in settings.vias)
    of_queue = (
        (job_policy.TTL, settings.policy.ttl_ms is not None and not has_queue),
        (job_policy.LOW_PRIORITY, settings.policy.low_priority is not None and not has_queue),
        (run_settings.RESUMABLE, settings.resumable),
        (run_settings.STREAM, settings.stream),
    )
    _refuse_said(of_queue, name, f"is for jobs in the service's queue, and {via} goes past it")


def _refuse_said(settings: Iterable[tuple[Setting[Any], bool]], name: DisplayName, why: str) -> None:
    """Raises `UsageError` for the first of these that something is said of; `why` follows its name."""
    for setting, is_said in settings:
        if is_said:
            raise UsageError(f"{name(setting)} {why}; leave one out")


def _check_sync(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where answers are to be held, and something is said that needs to know a job meanwhile."""
    via = _lane(settings, name, *(each for each in Via if Operation.RUNSYNC in each.operations))
    if via is not None and settings.resumable:
        raise UsageError(
            f"{name(run_settings.RESUMABLE)} is for long jobs, which are asked how far they are, and {via} for short"
            " ones, whose answers are held; leave one out"
        )


def _check_batch(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where jobs are to leave in batches, and something is said of them that these do not take."""
    via = _lane(settings, name, Via.BATCH)
    if via is None:
        return
    if settings.members:
        raise UsageError(
            f"{via} is for a run at one endpoint, and not for a pool, since nobody knows when its batches begin; name"
            f" one endpoint, with {name(run_settings.FINISH_BY)}: what would be late leaves by /run there"
        )
    refused = (
        (job_policy.TTL, settings.policy.ttl_ms is not None),
        (job_policy.EXECUTION_TIMEOUT, settings.policy.execution_timeout_ms is not None),
        (job_policy.LOW_PRIORITY, settings.policy.low_priority is not None),
        (run_settings.RESUMABLE, settings.resumable),
        (run_settings.STREAM, settings.stream),
    )
    _refuse_said(refused, name, f"cannot be said of a request in a batch, and {via} puts each into one")


def _check_chunk(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where rows are to travel together, and something is said that is of one job alone."""
    if settings.chunk is None:
        for setting in (lane_settings.CHUNK_INPUT, lane_settings.CHUNK_OUTPUT):
            if getattr(settings, setting.name) != setting.unset:
                raise UsageError(
                    f"{name(setting)} is for rows that travel together; give {name(lane_settings.CHUNK)} too"
                )
        return
    told = name(lane_settings.CHUNK)
    if (via := _lane(settings, name, *(each for each in Via if each is not Via.QUEUE))) is not None:
        raise UsageError(f"{told} is for jobs that leave by /run, and {via} has another way for them; leave one out")
    refused = ((run_settings.RESUMABLE, settings.resumable), (run_settings.STREAM, settings.stream))
    _refuse_said(refused, name, f"is of one job alone, and with {told} several rows are one job of the service")


def _check_resumable(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where settings are of resumable jobs, and the run has none; `name` is how one is named."""
    if settings.resumable:
        if settings.stall_after_us is not None and not settings.progress_every_us:
            raise UsageError(
                f"{name(run_settings.STALL_AFTER)} needs to know how far a job is, and"
                f" {name(run_settings.PROGRESS_EVERY)} off asks not for that; leave one out"
            )
        return
    for setting in (
        run_settings.PROGRESS_EVERY,
        run_settings.STALL_AFTER,
        run_settings.MAX_SEGMENTS,
        run_settings.MAX_EXECUTION,
    ):
        if getattr(settings, setting.name) != setting.unset:
            raise UsageError(f"{name(setting)} is for resumable jobs; give {name(run_settings.RESUMABLE)} too")


def _knows_cost(setting: Setting[Any], settings: RunSettings) -> bool:
    """Whether the account says what the pods of the run cost, which that `setting` bounds."""
    return setting is run_settings.BUDGET and settings.pod_template is not None


def check_brakes(settings: RunSettings, name: DisplayName = str) -> None:
    """Raises `UsageError` where brakes of a run lack what they go by; `name` is how a setting is named."""
    for setting in (run_settings.BUDGET, run_settings.BUDGET_PER_DAY, run_settings.BUDGET_PER_HOUR):
        if getattr(settings, setting.name) and settings.price is None and not _knows_cost(setting, settings):
            raise UsageError(
                f"{name(setting)} needs to know what a second costs; give {name(run_settings.PRICE_PER_SECOND)} too"
            )
    if settings.stop_late and not settings.finish_by:
        raise UsageError(
            f"{name(run_settings.STOP_LATE)} needs to know when the run is to be finished; give"
            f" {name(run_settings.FINISH_BY)} too"
        )
    _check_need(settings, name)


def _check_need(settings: RunSettings, name: DisplayName) -> None:
    """Raises `UsageError` where workers are to follow what is needed, and nothing says what that is."""
    found = settings.worker_range
    if found is None:
        if settings.budget_per_hour:
            raise UsageError(
                f"{name(run_settings.BUDGET_PER_HOUR)} says how many workers there may be; give"
                f" {name(run_settings.WORKERS)} auto:MIN-MAX too"
            )
        return
    auto = f"{name(run_settings.WORKERS)} {format_workers(found)}"
    if not settings.finish_by and not settings.budget_per_hour:
        raise UsageError(
            f"{auto} needs to know by when, or for how much: give {name(run_settings.FINISH_BY)} or"
            f" {name(run_settings.BUDGET_PER_HOUR)} too"
        )
    costs = found.least * HOUR_US / SECOND_US * (settings.price or 0.0)
    if settings.budget_per_hour and costs > settings.budget_per_hour:
        raise UsageError(
            f"{auto}: {counted(found.least, 'worker')} cost {money(costs)} an hour, and"
            f" {name(run_settings.BUDGET_PER_HOUR)} is {money(settings.budget_per_hour)}"
        )
