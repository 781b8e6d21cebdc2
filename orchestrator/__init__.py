"""Runs large batches on serverless GPU endpoints: each job sent once, within the limits, collected in time.

    import orchestrator

    for result in orchestrator.map("abc123", [{"prompt": "a lighthouse"}], name="captions"):
        print(result.custom_id, result.output)

or, in async code, `async with Orchestrator() as orc:`. The names below are the public ones; they are loaded when first
used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api.blocking import apply, backfill, map, serve, trigger  # noqa: A004  as of an executor
    from orchestrator.api.flow_handle import Flow
    from orchestrator.api.handle import Run
    from orchestrator.api.outcomes import Job, Result
    from orchestrator.api.pipeline_structs import Notify, Pipeline, Schedule, Stage
    from orchestrator.api.program import Orchestrator
    from orchestrator.errors import InputError, OrchestratorError, StoppedError, StorageError, UsageError

__version__ = "0.1.0"

__all__ = [
    "Flow",
    "InputError",
    "Job",
    "Notify",
    "Orchestrator",
    "OrchestratorError",
    "Pipeline",
    "Result",
    "Run",
    "Schedule",
    "Stage",
    "StoppedError",
    "StorageError",
    "UsageError",
    "apply",
    "backfill",
    "map",
    "serve",
    "trigger",
]

_HOME = {
    "Flow": "api.flow_handle",
    "Job": "api.outcomes",
    "Notify": "api.pipeline_structs",
    "Orchestrator": "api.program",
    "Pipeline": "api.pipeline_structs",
    "Result": "api.outcomes",
    "Run": "api.handle",
    "Schedule": "api.pipeline_structs",
    "Stage": "api.pipeline_structs",
    **dict.fromkeys(("apply", "backfill", "map", "serve", "trigger"), "api.blocking"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
