"""The commands about runs and their jobs."""

from typing import Final

from orchestrator.cli.framework.command_groups import Members
from orchestrator.cli.runs import (
    brakes,
    control,
    doctor,
    jobs,
    limits,
    plan,
    progress,
    results,
    retry,
    run,
    runs,
    status,
    verify,
    watch,
)

RUN_A_BATCH: Final[Members] = {
    "run": run.run,
    "plan": plan.plan,
    "resume": run.resume,
    "watch": watch.watch,
    "results": results.results,
    "failures": jobs.failures,
    "retry": retry.retry,
    "verify": verify.verify,
}
LOOK_AFTER_RUNS: Final[Members] = {
    "status": status.status,
    "doctor": doctor.doctor,
    "pause": control.pause,
    "unpause": control.unpause,
    "cancel": control.cancel,
    "progress": progress.progress,
    "runs": runs.commands,
    "jobs": jobs.commands,
    "limits": limits.commands,
    "brakes": brakes.commands,
}
