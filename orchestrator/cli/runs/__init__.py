"""The commands about runs and their jobs."""

from orchestrator.cli.runs.brakes import add_brakes
from orchestrator.cli.runs.control import add_control
from orchestrator.cli.runs.doctor import add_doctor
from orchestrator.cli.runs.jobs import add_failures, add_jobs
from orchestrator.cli.runs.limits import add_limits
from orchestrator.cli.runs.plan import add_plan
from orchestrator.cli.runs.progress import add_progress
from orchestrator.cli.runs.results import add_results
from orchestrator.cli.runs.retry import add_retry
from orchestrator.cli.runs.run import add_resume, add_run
from orchestrator.cli.runs.runs import add_runs
from orchestrator.cli.runs.status import add_status
from orchestrator.cli.runs.verify import add_verify
from orchestrator.cli.runs.watch import add_watch

RUN_A_BATCH = (
    add_run,
    add_plan,
    add_resume,
    add_watch,
    add_results,
    add_failures,
    add_retry,
    add_verify,
)
LOOK_AFTER_RUNS = (add_status, add_doctor, add_control, add_progress, add_runs, add_jobs, add_limits, add_brakes)
