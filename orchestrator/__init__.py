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
    from orchestrator.api.python.flow import Flow
    from orchestrator.api.python.orchestrator import Orchestrator
    from orchestrator.api.python.pipeline import Notify, Pipeline, Schedule, Stage
    from orchestrator.api.python.results import Job, Result
    from orchestrator.api.python.run import Run
    from orchestrator.api.python.sync import apply, backfill, map, serve, trigger  # noqa: A004  as of an executor
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
    "Flow": "api.python.flow",
    "Job": "api.python.results",
    "Notify": "api.python.pipeline",
    "Orchestrator": "api.python.orchestrator",
    "Pipeline": "api.python.pipeline",
    "Result": "api.python.results",
    "Run": "api.python.run",
    "Schedule": "api.python.pipeline",
    "Stage": "api.python.pipeline",
    **dict.fromkeys(("apply", "backfill", "map", "serve", "trigger"), "api.python.sync"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'errors')}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
