"""The composition root: builds every part once, starts them, and stops them in order.

Each command loads only what it needs: `status` and `results` must answer at once, and a whole run's imports take most
of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.app.batch import run
    from orchestrator.app.controlling import control
    from orchestrator.app.emulating import emulate
    from orchestrator.app.limiting import limits, limits_reset, limits_set
    from orchestrator.app.look import results, status
    from orchestrator.app.verifying import verify
    from orchestrator.app.view import View

__all__ = ["View", "control", "emulate", "limits", "limits_reset", "limits_set", "results", "run", "status", "verify"]

_HOME = {
    "View": "view",
    "control": "controlling",
    "emulate": "emulating",
    "limits": "limiting",
    "limits_reset": "limiting",
    "limits_set": "limiting",
    "results": "look",
    "run": "batch",
    "status": "look",
    "verify": "verifying",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
