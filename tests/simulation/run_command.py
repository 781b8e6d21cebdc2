"""What people give with the command for a run of a simulated world: its file, its settings, its connection."""

from typing import Any

from orchestrator.core.gates.brake_gates import Canary, MaxFailures
from orchestrator.core.jobs.escalation import EscalationRule
from orchestrator.core.jobs.escalation_text import parse_rule, problems_of
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS, Limit, Operation
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import NotifyTarget, TargetKind
from orchestrator.settings.parsers.brake_parsers import parse_canary, parse_max_failures, parse_percentage
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from orchestrator.units import SECOND_US
from tests.simulation.chunks import for_chunks
from tests.simulation.clock import EPOCH_AT
from tests.simulation.compact import compact
from tests.simulation.facts import Facts, RunFacts
from tests.simulation.network import LISTENER_URL
from tests.simulation.plan import OTHER_ENDPOINTS, Plan, Rate, RunPlan, ScalingPlan, Where
from tests.simulation.pods import PLACE, pod_template
from tests.simulation.pool import endpoint_named, named_members, policy_of
from tests.simulation.process import KEYS
from tests.simulation.receivers import HOOK_VARIABLE, NOTIFY, OPS
from tests.simulation.saves import for_saves
from tests.simulation.stranger import for_batches
from tests.simulation.world import ENDPOINT, HERE, SECOND_ENDPOINT, SERVER_PATH

HOSTS = {Where.HERE: HERE, Where.NEXT_DOOR: HERE, Where.ELSEWHERE: "elsewhere"}
VARIABLES = {HERE: "KEY_HERE", "elsewhere": "KEY_ELSEWHERE"}
ENDPOINTS = {Where.HERE: ENDPOINT, Where.NEXT_DOOR: SECOND_ENDPOINT, Where.ELSEWHERE: ENDPOINT}

PROGRESS_EVERY_S = 2.0


def hosts_of(plan: Plan) -> list[str]:
    """Those of all services of a world."""
    return sorted({HOSTS[run.where] for run in plan.runs})


def write_input(plan: Plan, run: RunFacts) -> None:
    """Writes the file of a run."""
    s3_config = {"accessId": "env:WORKER_ID", "accessSecret": "env:WORKER_SECRET", "bucketName": "b"}
    more = {"s3Config": s3_config} if plan.secrets else {}
    rows = ({"custom_id": f"job-{n}", "input": _input(plan, n), **more} for n in run.numbers)
    run.source.write_bytes(b"".join(compact(row) + b"\n" for row in rows))


def _input(plan: Plan, n: int) -> dict[str, Any]:
    if plan.via is Via.HTTP:
        return {"n": n}
    return {"openai_route": SERVER_PATH, "openai_input": {"n": n}} if plan.direct else {"n": n}


def request_of(facts: Facts, run: RunFacts) -> RunRequest:
    """The command that is given now for a run."""
    plan = facts.plan
    scaling, number = plan.scaling, facts.runs.index(run)
    if scaling is None or (number and not (scaling.is_shared and run.plan.where is Where.HERE)):
        scaling = None
    pods = plan.pods if run.plan.where is Where.HERE else None
    members = named_members(plan, process=run.processes - 1) if run is facts.runs[0] else ()
    request = RunRequest(
        name=run.plan.name,
        source=str(run.source),
        endpoint=PLACE if pods is not None else _endpoint(plan, run.plan.where),
        members=members,
        ledger=facts.address,
        output=run.output,
        errors=run.errors,
        connection=connection_of(plan, run.plan),
        settings=RunSettings(
            allow_env=("WORKER_*",),
            policy=policy_of(plan, members),
            max_attempts=run.plan.max_attempts,
            retention_us=round(plan.retention_s * plan.time_scale * SECOND_US),
            on_uncertain=run.plan.on_uncertain,
            on_expired=run.plan.on_expired,
            priority=run.plan.priority,
            notify=None if plan.receivers is None else NOTIFY,
            output_required=True,
            stream=plan.yields,
            escalate=_rules(run.plan, plan),
            canary=Canary() if plan.canary is None or run.held else parse_canary(plan.canary),
            budget=0.0 if run.held else plan.budget_s(run.plan) or 0.0,
            budget_per_day=plan.budget_per_day_s() or 0.0,
            price_per_second=None if plan.budget_share is None and plan.day_share is None else 1.0,
            max_failures=MaxFailures()
            if plan.max_failures is None or run.held
            else parse_max_failures(plan.max_failures),
            finish_by=0 if run.held else _finish_by(plan, scaling, number),
            workers=None if scaling is None else scaling.range,
            pods=None if pods is None else pods.wanted_by(run.processes - 1),
            pod_template=None if pods is None else pod_template(pods),
            stop_late=plan.finish_by_s is not None and not run.held,
            retry_budget=None if plan.retry_budget is None else parse_percentage(plan.retry_budget),
            resumable=plan.resumable,
            via=plan.via,
            path=SERVER_PATH if plan.via is Via.HTTP else "",
            progress_every_us=round(PROGRESS_EVERY_S * plan.time_scale * SECOND_US),
        ),
    )
    return for_saves(for_chunks(for_batches(request, plan), plan), plan, facts.folder)


def connection_of(plan: Plan, run: RunPlan) -> ConnectionSettings:
    """How the services are reached, from that of the run on."""
    limits = {**CONTRACT_LIMITS, Operation.RUN: _limit(plan.run_rate), Operation.STATUS: _limit(plan.status_rate)}
    if plan.are_held:
        limits[Operation.RUNSYNC] = _limit(plan.run_rate)
    limits[Operation.BATCH] = _limit(plan.batch_rate)
    if plan.pods is not None:
        limits[plan.via.operation] = Limit(1000, 10.0, plan.pods.at_once)
    if plan.retry_rate is not None:
        limits[Operation.RETRY] = _limit(plan.retry_rate)
    here = HOSTS[run.where]
    return ConnectionSettings(
        serverless_url=f"http://{here}",
        rest_url=f"http://{HERE}",
        api_key=KEYS[VARIABLES[here]],
        keys={f"http://{host}": _key(plan, host) for host in hosts_of(plan) if host != here},
        listen="127.0.0.1:0" if plan.webhooks else None,
        webhook_url=LISTENER_URL if plan.webhooks else None,
        limits=limits,
        targets={OPS: NotifyTarget(kind=TargetKind.WEBHOOK, url=f"env:{HOOK_VARIABLE}")},
    )


def _key(plan: Plan, host: str) -> str:
    """As a person gives it, or a program."""
    return f"env:{VARIABLES[host]}" if plan.seed % 2 else KEYS[VARIABLES[host]]


def _finish_by(plan: Plan, scaling: ScalingPlan | None, run: int) -> int:
    by_s = plan.finish_by_s if scaling is None else scaling.finish_by_s * (1 + run / 2)
    return 0 if by_s is None else EPOCH_AT + round(by_s * SECOND_US)


def _rules(run: RunPlan, plan: Plan) -> tuple[EscalationRule, ...]:
    """Those that its attempts are enough for."""
    found = [parse_rule(text.format(other=OTHER_ENDPOINTS[run.where])) for text in plan.escalate]
    return tuple(rule for rule in found if problems_of([rule], max_attempts=run.max_attempts) is None)


def _limit(rate: Rate) -> Limit:
    return Limit(rate.requests, rate.window_s, rate.concurrent)


def _endpoint(plan: Plan, where: Where) -> str:
    return endpoint_named(plan, HOSTS[where], ENDPOINTS[where])
