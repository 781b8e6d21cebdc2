"""What can be asked of the program, by its command line and by others' programs.

Each command loads only what it needs: `status` and `results` must answer at once, and a whole run's imports take most
of a second.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator.api.admin.brakes import brakes, brakes_set
    from orchestrator.api.admin.ledger_admin import ledger_backup, ledger_compact, ledger_info
    from orchestrator.api.admin.limits import limits, limits_reset, limits_set
    from orchestrator.api.admin.process_stop import stop
    from orchestrator.api.admin.revalidate import recheck
    from orchestrator.api.admin.run_admin import delete, export_run, rename
    from orchestrator.api.admin.tidy import tidy
    from orchestrator.api.emulation.emulate import emulate
    from orchestrator.api.flows.apply import apply
    from orchestrator.api.flows.flows import backfill, backfill_preview, flow_called, flow_show, flows_list, trigger
    from orchestrator.api.flows.lineage import flow_lineage
    from orchestrator.api.flows.rerun import flow_rerun
    from orchestrator.api.flows.schedules import (
        schedules_check,
        schedules_continue,
        schedules_history,
        schedules_list,
        schedules_next,
        schedules_pause,
        schedules_remove,
    )
    from orchestrator.api.flows.tick import tick, wait_for_flow
    from orchestrator.api.foreground.serve import serve
    from orchestrator.api.foreground.session import run
    from orchestrator.api.foreground.watch import watch
    from orchestrator.api.inspect.doctor import doctor
    from orchestrator.api.inspect.status import latest, results, show, status
    from orchestrator.api.outcomes.job_queries import cancel_preview, failures, job_show, jobs_list, retry_preview
    from orchestrator.api.outcomes.verify import verify
    from orchestrator.api.planning.plan import plan
    from orchestrator.api.runs.commands import cancel_jobs, control, prioritize, resend, retry
    from orchestrator.api.runs.job_progress import follow_progress, progress
    from orchestrator.engine.runtime.view import View

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
    "View": "orchestrator.engine.runtime.view",
    "apply": "flows.apply",
    "backfill": "flows.flows",
    "backfill_preview": "flows.flows",
    "brakes": "admin.brakes",
    "brakes_set": "admin.brakes",
    "cancel_jobs": "runs.commands",
    "cancel_preview": "outcomes.job_queries",
    "control": "runs.commands",
    "delete": "admin.run_admin",
    "doctor": "inspect.doctor",
    "emulate": "emulation.emulate",
    "export_run": "admin.run_admin",
    "failures": "outcomes.job_queries",
    "flow_called": "flows.flows",
    "flow_lineage": "flows.lineage",
    "flow_rerun": "flows.rerun",
    "flow_show": "flows.flows",
    "flows_list": "flows.flows",
    "follow_progress": "runs.job_progress",
    "job_show": "outcomes.job_queries",
    "jobs_list": "outcomes.job_queries",
    "latest": "inspect.status",
    "ledger_backup": "admin.ledger_admin",
    "ledger_compact": "admin.ledger_admin",
    "ledger_info": "admin.ledger_admin",
    "limits": "admin.limits",
    "limits_reset": "admin.limits",
    "limits_set": "admin.limits",
    "plan": "planning.plan",
    "prioritize": "runs.commands",
    "progress": "runs.job_progress",
    "rename": "admin.run_admin",
    "resend": "runs.commands",
    "results": "inspect.status",
    "recheck": "admin.revalidate",
    "retry": "runs.commands",
    "retry_preview": "outcomes.job_queries",
    "run": "foreground.session",
    "schedules_check": "flows.schedules",
    "schedules_continue": "flows.schedules",
    "schedules_history": "flows.schedules",
    "schedules_list": "flows.schedules",
    "schedules_next": "flows.schedules",
    "schedules_pause": "flows.schedules",
    "schedules_remove": "flows.schedules",
    "serve": "foreground.serve",
    "show": "inspect.status",
    "status": "inspect.status",
    "stop": "admin.process_stop",
    "tick": "flows.tick",
    "tidy": "admin.tidy",
    "trigger": "flows.flows",
    "verify": "outcomes.verify",
    "wait_for_flow": "flows.tick",
    "watch": "foreground.watch",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOME[name]
    return getattr(import_module(home if home.startswith("orchestrator.") else f"{__name__}.{home}"), name)
