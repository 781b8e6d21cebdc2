"""The commands about pipelines, and the processes that fire them."""

from typing import Final

from orchestrator.cli.framework.command_groups import Members
from orchestrator.cli.pipelines import apply, flows, schedules, serve, trigger

PIPELINES: Final[Members] = {
    "apply": apply.apply,
    "serve": serve.serve,
    "tick": serve.tick,
    "trigger": trigger.trigger,
    "backfill": trigger.backfill,
    "schedules": schedules.commands,
    "flows": flows.commands,
}
