"""What can be asked of the emulated service as it stands, each declared once: as a field, a flag and a key."""

from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.emulator.contract.answers import ErrorBodies
from orchestrator.emulator.contract.paging import PAGE_MAX
from orchestrator.emulator.contract.rate_counters import Algorithm
from orchestrator.emulator.jobs.scaling_rules import PROPAGATION_S
from orchestrator.settings.setting import Panel, Setting
from orchestrator.settings.value_types import SWITCH, number, one_of, whole

_served: Final = partial(Setting, panel=Panel.SERVED)
_scaling: Final = partial(Setting, panel=Panel.WORKERS)
_behaviour: Final = partial(Setting, panel=Panel.BEHAVIOUR)


class EmulatorOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What `emulate` hands on. The defaults are the contract's."""

    handler_processes: Annotated[
        int,
        _served(
            "handler-processes",
            whole(0),
            "Runs plain functions in so many processes at each endpoint rather than in threads: for work that fills a"
            " core, or that may crash. A crash fails its job.",
            default="0 (threads)",
        ),
    ] = 0
    strict: Annotated[
        bool,
        _behaviour(
            "strict",
            SWITCH,
            "Refuses what the service was seen to refuse also where its contract is silent:"
            " [what that is](interface-emulator.md#strict).",
            brief="Refuses what the service was seen to refuse",
        ),
    ] = False
    algorithm: Annotated[
        Algorithm,
        _behaviour(
            "algorithm",
            one_of(Algorithm, "NAME"),  # the names together are wider than a screen
            "How requests are counted: `sliding_log`, `fixed_window`, `weighted_counter`, `token_bucket`, or"
            " `token_bucket_small` (a tenth of the requests at once).",
        ),
    ] = Algorithm.SLIDING_LOG
    retry_after: Annotated[bool, _behaviour("retry-after", SWITCH, "Says in a 429 when to come again.")] = False
    service_retries: Annotated[
        int,
        _behaviour(
            "service-retries",
            whole(0, 100, "N"),
            "Executes a job that fails up to N times more, by itself, before it is said to have failed.",
        ),
    ] = 0
    retention_s: Annotated[float, _behaviour("retention", number("SECONDS"), "How long a finished job is kept.")] = (
        1800.0
    )
    propagation_s: Annotated[
        float, _behaviour("propagation", number("SECONDS"), "How long a created endpoint answers 404 to jobs.")
    ] = PROPAGATION_S
    error_bodies: Annotated[ErrorBodies, _behaviour("error-bodies", one_of(ErrorBodies), "Bodies of errors.")] = (
        ErrorBodies.JSON
    )
    time_scale: Annotated[
        float,
        _behaviour("time-scale", number("X"), "Lets `X` seconds pass in one.", brief="Lets X seconds pass in one"),
    ] = 1.0
    page_size: Annotated[
        int,
        _behaviour("page-size", whole(1, PAGE_MAX), "The most that a page of a list holds by REST v2, pods included."),
    ] = PAGE_MAX
    requests_per_worker: Annotated[
        int | None,
        _scaling(
            "requests-per-worker", whole(1), "Workers that are up raise the limits by so much each.", default="off"
        ),
    ] = None
    queue_per_worker: Annotated[
        int | None,
        _scaling(
            "queue-per-worker",
            whole(1),
            "Answers 429 to `/run` while more than `N` jobs for each worker there may be (and more than 50) are"
            " queued.",
            default="off",
        ),
    ] = None
