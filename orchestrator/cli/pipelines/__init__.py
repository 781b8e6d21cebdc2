"""The commands about pipelines, and the processes that fire them."""

from orchestrator.cli.pipelines.apply import add_apply
from orchestrator.cli.pipelines.flows import add_flows
from orchestrator.cli.pipelines.schedules import add_schedules
from orchestrator.cli.pipelines.serve import add_serve
from orchestrator.cli.pipelines.tick import add_tick
from orchestrator.cli.pipelines.trigger import add_trigger

PIPELINES = (add_apply, add_serve, add_tick, add_trigger, add_schedules, add_flows)
