"""Every form that acts, by its path."""

from collections.abc import Mapping
from typing import Final

from orchestrator.api.actions import (
    flow_proposals,
    job_proposals,
    limit_proposals,
    message_proposals,
    pipeline_proposals,
    run_proposals,
)
from orchestrator.dashboard.actions.confirmed_form import ConfirmedForm, Propose
from orchestrator.dashboard.page import FormRoute


def _forms(root: str, subject: str, heading: str, proposals: Mapping[str, Propose]) -> tuple[FormRoute, ...]:
    return tuple(
        ConfirmedForm(
            path=f"{root}/{{{subject}:number}}/{verb}", proposal=proposal, subject=subject, heading=heading
        ).route
        for verb, proposal in proposals.items()
    )


ROUTES: Final[tuple[FormRoute, ...]] = (
    *_forms(
        "/runs",
        "run",
        "Runs",
        {
            "pause": run_proposals.pause_run,
            "continue": run_proposals.continue_run,
            "release": run_proposals.release_run,
            "cancel": run_proposals.cancel_run,
            "priority": run_proposals.change_priority,
            "brakes": run_proposals.change_brakes,
            "limits": limit_proposals.set_limits_of_run,
            "retry": job_proposals.retry_jobs,
            "cancel-jobs": job_proposals.cancel_some,
        },
    ),
    *_forms(
        "/endpoints",
        "endpoint",
        "Endpoints",
        {"limits": limit_proposals.set_limits, "reset-limits": limit_proposals.reset_limits},
    ),
    *_forms(
        "/flows",
        "flow",
        "Pipelines",
        {
            "pause": flow_proposals.pause_flow,
            "continue": flow_proposals.continue_flow,
            "cancel": flow_proposals.cancel_flow,
            "rerun": flow_proposals.rerun_flow,
        },
    ),
    *_forms(
        "/pipelines",
        "pipeline",
        "Pipelines",
        {
            "fire": pipeline_proposals.fire_now,
            "backfill": pipeline_proposals.make_up,
            "pause": pipeline_proposals.pause_schedule,
            "continue": pipeline_proposals.continue_schedule,
        },
    ),
    ConfirmedForm(
        path="/messages/{message}/resend", proposal=message_proposals.send_again, subject="message", heading="Messages"
    ).route,
)
