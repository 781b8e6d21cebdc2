"""What can be asked of the program, by its command line and by others' programs.

Each command loads only what it needs: `status` and `results` must answer at once, and a whole run's imports take most
of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api.applying import apply
    from orchestrator.api.braking import brakes, brakes_set
    from orchestrator.api.controlling import cancel_jobs, control, prioritize, resend, retry
    from orchestrator.api.doctoring import doctor
    from orchestrator.api.emulating import emulate
    from orchestrator.api.flows import backfill, backfill_preview, flow_called, flow_show, flows_list, trigger
    from orchestrator.api.foreground import run
    from orchestrator.api.keeping_runs import delete, export_run, rename
    from orchestrator.api.ledgers import ledger_backup, ledger_compact, ledger_info
    from orchestrator.api.limiting import limits, limits_reset, limits_set
    from orchestrator.api.lineage import flow_lineage
    from orchestrator.api.long_jobs import follow_progress, progress
    from orchestrator.api.look import latest, results, show, status
    from orchestrator.api.planning import plan
    from orchestrator.api.rechecking import recheck
    from orchestrator.api.rerunning import flow_rerun
    from orchestrator.api.schedules import (
        schedules_check,
        schedules_continue,
        schedules_history,
        schedules_list,
        schedules_next,
        schedules_pause,
        schedules_remove,
    )
    from orchestrator.api.selecting import cancel_preview, failures, job_show, jobs_list, retry_preview
    from orchestrator.api.serving import serve
    from orchestrator.api.stopping import stop
    from orchestrator.api.tidying import tidy
    from orchestrator.api.verifying import verify
    from orchestrator.api.watching import watch
    from orchestrator.api.working_off import tick, wait_for_flow
    from orchestrator.engine.observers.view import View

__all__ = [
    "View",
    "apply",
    "backfill",
    "backfill_preview",
    "brakes",
    "brakes_set",
    "cancel_jobs",
    "cancel_preview",
    "control",
    "delete",
    "doctor",
    "emulate",
    "export_run",
    "failures",
    "flow_called",
    "flow_lineage",
    "flow_rerun",
    "flow_show",
    "flows_list",
    "follow_progress",
    "job_show",
    "jobs_list",
    "latest",
    "ledger_backup",
    "ledger_compact",
    "ledger_info",
    "limits",
    "limits_reset",
    "limits_set",
    "plan",
    "prioritize",
    "progress",
    "recheck",
    "rename",
    "resend",
    "results",
    "retry",
    "retry_preview",
    "run",
    "schedules_check",
    "schedules_continue",
    "schedules_history",
    "schedules_list",
    "schedules_next",
    "schedules_pause",
    "schedules_remove",
    "serve",
    "show",
    "status",
    "stop",
    "tick",
    "tidy",
    "trigger",
    "verify",
    "wait_for_flow",
    "watch",
]

_HOME = {
    "View": "orchestrator.engine.observers.view",
    "apply": "applying",
    "backfill": "flows",
    "backfill_preview": "flows",
    "brakes": "braking",
    "brakes_set": "braking",
    "cancel_jobs": "controlling",
    "cancel_preview": "selecting",
    "control": "controlling",
    "delete": "keeping_runs",
    "doctor": "doctoring",
    "emulate": "emulating",
    "export_run": "keeping_runs",
    "failures": "selecting",
    "flow_called": "flows",
    "flow_lineage": "lineage",
    "flow_rerun": "rerunning",
    "flow_show": "flows",
    "flows_list": "flows",
    "follow_progress": "long_jobs",
    "job_show": "selecting",
    "jobs_list": "selecting",
    "latest": "look",
    "ledger_backup": "ledgers",
    "ledger_compact": "ledgers",
    "ledger_info": "ledgers",
    "limits": "limiting",
    "limits_reset": "limiting",
    "limits_set": "limiting",
    "plan": "planning",
    "prioritize": "controlling",
    "progress": "long_jobs",
    "rename": "keeping_runs",
    "resend": "controlling",
    "results": "look",
    "recheck": "rechecking",
    "retry": "controlling",
    "retry_preview": "selecting",
    "run": "foreground",
    "schedules_check": "schedules",
    "schedules_continue": "schedules",
    "schedules_history": "schedules",
    "schedules_list": "schedules",
    "schedules_next": "schedules",
    "schedules_pause": "schedules",
    "schedules_remove": "schedules",
    "serve": "serving",
    "show": "look",
    "status": "look",
    "stop": "stopping",
    "tick": "working_off",
    "tidy": "tidying",
    "trigger": "flows",
    "verify": "verifying",
    "wait_for_flow": "working_off",
    "watch": "watching",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    return getattr(import_module(home if "." in home else f"{__name__}.{home}"), name)
