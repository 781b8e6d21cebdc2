"""Runs large batches on serverless GPU endpoints: each job sent once, within the limits, collected in time.

    from orchestrator import ConnectionSettings, RunRequest, RunSettings, run

    summary = await run(RunRequest(name="captions", source="prompts.jsonl", endpoint="abc123", ...))

The names below are the public ones; they are loaded when first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api import View, results, run, status
    from orchestrator.core.pacing import Limit, Operation
    from orchestrator.core.policy import Policy
    from orchestrator.errors import InputError, OrchestratorError, StoppedError, StorageError, UsageError
    from orchestrator.settings import ConnectionSettings, OnExpired, OnUncertain, RunRequest, RunSettings
    from orchestrator.views import Snapshot, Summary

__version__ = "0.1.0"

__all__ = [
    "ConnectionSettings",
    "InputError",
    "Limit",
    "OnExpired",
    "OnUncertain",
    "Operation",
    "OrchestratorError",
    "Policy",
    "RunRequest",
    "RunSettings",
    "Snapshot",
    "StoppedError",
    "StorageError",
    "Summary",
    "UsageError",
    "View",
    "results",
    "run",
    "status",
]

_HOME = (
    dict.fromkeys(("View", "results", "run", "status"), "api")
    | dict.fromkeys(("Limit", "Operation"), "core.pacing")
    | {"Policy": "core.policy"}
    | dict.fromkeys(("Snapshot", "Summary"), "views")
    | dict.fromkeys(("InputError", "OrchestratorError", "StoppedError", "StorageError", "UsageError"), "errors")
)


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME.get(name, 'settings')}"), name)
