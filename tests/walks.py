"""The paths that a row, a failure and a fire take through the program, call by call, and the page that shows them.

python -m tests.walks          writes docs/generated/walks.md

Each step is named in the body of one before it, so that "go to definition" leads from one to the next (from a protocol
to what implements it). What a step does is the first sentence of its docstring.
"""

import ast
import re
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "generated" / "walks.md"


class Part(NamedTuple):
    """One leg of a walk: what happens in it, and its steps as `path::name`, paths below `orchestrator/`."""

    title: str
    steps: tuple[str, ...]


class Walk(NamedTuple):
    """One path through the program."""

    title: str
    about: str
    parts: tuple[Part, ...]

    @property
    def steps(self) -> tuple[str, ...]:
        return tuple(step for part in self.parts for step in part.steps)

    @property
    def files(self) -> frozenset[str]:
        return frozenset(step.partition("::")[0] for step in self.steps)


ONE_ROW: Final = Walk(
    "One row",
    "From its line in the input to its line in the results file.",
    (
        Part(
            "It is read",
            (
                "cli/runs/run.py::run",
                "cli/runs/run.py::_carry_out",
                "api/foreground/run.py::run",
                "api/foreground/foreground_run.py::Foreground.run",
                "api/foreground/foreground_run.py::Foreground._serve",
                "api/foreground/foreground_run.py::Foreground._work",
                "api/foreground/run_intake.py::RunIntake.take_in",
                "api/outcomes/row_input.py::row_batches",
                "formats/input/readers.py::read_inputs",
                "formats/input/readers.py::_rows",
                "formats/input/lines.py::read_lines",
                "formats/input/readers.py::ReadOptions.objects",
                "formats/input/jsonl.py::RowReader.read",
                "engine/intake/intake.py::Intake.take",
                "ledger/runs/intakes.py::Intakes.add",
                "ledger/runs/intakes.py::Intakes._add",
                "ledger/runs/input_rows.py::rows_sort",
                "ledger/runs/intakes.py::Intakes._paced",
                "ledger/runs/intakes.py::Intakes.accept",
            ),
        ),
        Part(
            "It is claimed",
            (
                "engine/hosting/run_session.py::RunSession.send",
                "engine/hosting/run_session.py::RunSession.go_on",
                "engine/sending/dispatcher.py::Dispatcher.begin",
                "engine/sending/lane_sender.py::LaneSender.serve",
                "engine/sending/lane_sender.py::LaneSender._claim",
                "engine/sending/claim_turns.py::ClaimTurns.ready",
                "engine/sending/run_sender.py::RunSender.gate",
                "engine/sending/run_sender.py::RunSender._gate_results",
                "core/gates/gates.py::run_results",
                "engine/sending/claim_turns.py::ClaimTurns.chosen",
                "core/limits/fair_share.py::FairShare.next",
                "engine/sending/run_sender.py::RunSender.claim",
                "ledger/jobs/claims.py::Claims.take",
                "ledger/jobs/claims.py::Claims._claimed_for_run",
                "core/jobs/transitions.py::claimed",
                "ledger/transactions/transaction.py::Transaction.apply",
                "ledger/transitions/apply_transitions.py::transitions_apply",
                "ledger/transitions/apply_transitions.py::_apply",
            ),
        ),
        Part(
            "It is sent",
            (
                "engine/sending/lane_sender.py::LaneSender._send",
                "engine/sending/lane_sender.py::LaneSender._permit",
                "engine/sending/request_sender.py::RequestSender.send",
                "engine/sending/request_sender.py::RequestSender._result",
                "engine/lanes/queue_lanes.py::RunLane.send",
                "engine/lanes/request_builder.py::RequestBuilder.body",
                "ledger/sites/sent_marks.py::Marks.mark",
                "client/jobs/serverless.py::ServerlessEndpoint.run",
                "client/jobs/serverless.py::ServerlessEndpoint.send",
                "client/http/transport.py::Transport.send",
                "engine/lanes/queue_lanes.py::RunLane.step",
                "core/service/outcomes.py::run_outcome",
                "engine/lanes/lane.py::Lane._on_outcome",
                "engine/lanes/response_steps.py::on_response",
                "core/jobs/transitions.py::accepted",
                "ledger/transactions/group_commit.py::GroupCommitWriter.submit",
                "ledger/transactions/group_commit.py::GroupCommitWriter.serve",
                "ledger/transactions/group_commit.py::GroupCommitWriter._drain",
                "ledger/transactions/group_commit.py::GroupCommitWriter._commit",
                "ledger/transactions/group_commit.py::GroupCommitWriter._tell",
            ),
        ),
        Part(
            "Its result is collected, by asking",
            (
                "engine/hosting/run_host.py::RunHost.take_on",
                "engine/engine.py::Engine.reach",
                "engine/hosting/endpoint_registry.py::EndpointRegistry.reach",
                "engine/hosting/endpoint_registry.py::EndpointRegistry._serve",
                "engine/collecting/collector.py::Collector.__init__",
                "engine/endpoint/outstanding_jobs.py::OutstandingJobs.on_steps",
                "core/polling/poll_plan.py::PollPlan.add",
                "engine/collecting/collector.py::Collector.serve",
                "engine/collecting/collector.py::Collector._poll",
                "core/polling/poll_plan.py::PollPlan.next",
                "engine/collecting/collector.py::Collector._ask",
                "client/jobs/serverless.py::ServerlessEndpoint.status",
                "core/service/outcomes.py::status_outcome",
                "engine/collecting/collector.py::Collector._act",
                "engine/collecting/finished_jobs.py::FinishedJobs.step",
                "engine/collecting/judged_finish.py::JudgedFinish.step",
                "engine/collecting/validation_pool.py::ValidationPool.judged",
                "engine/collecting/result_steps.py::on_finished",
                "core/service/outcomes.py::verdict_of",
                "engine/collecting/result_steps.py::on_completed",
                "core/jobs/transitions.py::completed",
                "engine/collecting/collector.py::Collector._settle",
                "ledger/transitions/outcome_writes.py::outcomes_write",
            ),
        ),
        Part(
            "Or by a webhook",
            (
                "engine/engine.py::Engine.__init__",
                "engine/process/engine_process.py::EngineProcess.__init__",
                "engine/process/webhook_listener.py::WebhookListener.__init__",
                "engine/process/webhook_listener.py::WebhookListener._bind",
                "web/webhook_routes.py::Webhooks",
                "web/webhook_routes.py::Webhooks.handle",
                "core/service/webhook_token.py::submission_of",
                "engine/collecting/notice_desk.py::NoticeDesk.note",
                "engine/collecting/notice_queue.py::NoticeQueue.came",
                "engine/collecting/webhook_inbox.py::WebhookInbox.serve",
                "engine/collecting/webhook_inbox.py::WebhookInbox._poll",
                "engine/collecting/webhook_inbox.py::WebhookInbox._go_through",
                "engine/collecting/webhook_inbox.py::WebhookInbox._sort_out",
                "engine/collecting/notice_steps.py::on_notice",
                "engine/collecting/notice_steps.py::_of_latest",
            ),
        ),
        Part(
            "It is written",
            (
                "engine/hosting/run_registry.py::RunRegistry.open_session",
                "engine/runtime/progress.py::Progress.on_steps",
                "engine/observers/served_run.py::ServedRun.until_over",
                "api/foreground/foreground_run.py::Foreground._end",
                "api/foreground/run_files.py::RunFiles.write",
                "api/outcomes/result_files.py::write_files",
                "api/outcomes/outcome_pages.py::jobs_of",
                "api/outcomes/outcome_pages.py::finished_jobs",
                "ledger/jobs/results.py::Results.page",
                "api/outcomes/result_files.py::file_outcome",
                "formats/output/writers.py::OutcomeFile",
                "formats/output/writers.py::sink_of",
                "formats/output/outcome_lines.py::encode_outcome",
                "formats/output/coming_files.py::commit_together",
            ),
        ),
    ),
)

ONE_FAILURE: Final = Walk(
    "One failure",
    "From the record FAILED to the next execution, and at last to the errors file. It begins in `Collector._ask`, as above.",
    (
        Part(
            "It is found out",
            (
                "core/service/outcomes.py::status_outcome",
                "engine/collecting/collector.py::Collector._act",
                "engine/collecting/finished_jobs.py::FinishedJobs.step",
                "engine/collecting/judged_finish.py::JudgedFinish.step",
                "engine/collecting/result_steps.py::on_finished",
                "core/service/outcomes.py::verdict_of",
                "engine/collecting/result_steps.py::on_failed",
                "core/jobs/retry.py::decide",
                "core/jobs/retry.py::backoff_us",
                "core/jobs/transitions.py::retried",
                "engine/collecting/collector.py::Collector._settle",
                "ledger/transitions/apply_transitions.py::transitions_apply",
                "ledger/transitions/apply_transitions.py::_apply",
                "ledger/transitions/event_writes.py::events_write",
                "ledger/transactions/group_commit.py::GroupCommitWriter._tell",
            ),
        ),
        Part(
            "It is tried again",
            (
                "engine/sending/dispatcher.py::Dispatcher.__init__",
                "engine/sending/dispatcher.py::Dispatcher.on_steps",
                "engine/sending/run_sender.py::RunSender.on_queued",
                "engine/sending/lane_sender.py::LaneSender.wake",
                "engine/sending/lane_sender.py::LaneSender._claim",
                "engine/sending/run_sender.py::RunSender.look_ahead",
                "engine/sending/run_sender.py::RunSender.claim",
                "ledger/jobs/claims.py::Claims.take",
                "core/jobs/transitions.py::claimed_for_retry",
                "engine/lanes/queue_lanes.py::RetryLane.send",
                "client/jobs/serverless.py::ServerlessEndpoint.retry",
                "engine/lanes/queue_lanes.py::RetryLane.step",
                "core/service/outcomes.py::retry_outcome",
                "engine/lanes/lane.py::Lane._on_outcome",
                "engine/lanes/response_steps.py::on_response",
                "core/jobs/transitions.py::accepted_for_retry",
                "engine/endpoint/outstanding_jobs.py::OutstandingJobs.on_steps",
            ),
        ),
        Part(
            "It fails for the last time",
            (
                "core/jobs/retry.py::decide",
                "core/jobs/retry.py::_exhausted",
                "core/jobs/transitions.py::abandoned",
                "ledger/transitions/outcome_writes.py::outcomes_write",
                "api/outcomes/result_files.py::file_outcome",
                "formats/output/writers.py::OutcomeFile",
                "formats/output/outcome_lines.py::encode_outcome",
            ),
        ),
    ),
)

ONE_FIRE: Final = Walk(
    "One fire",
    "From a time of a schedule to the results of its flow. It begins with `serve`.",
    (
        Part(
            "It is recorded",
            (
                "api/hosting/host.py::Host.begin",
                "engine/engine.py::Engine.carry_out_flows",
                "engine/flows/scheduler.py::Scheduler.serve",
                "engine/flows/scheduler.py::Scheduler._poll",
                "engine/flows/scheduler.py::Scheduler.run_once",
                "engine/flows/schedule_evaluator.py::ScheduleEvaluator.look",
                "engine/flows/schedule_evaluator.py::ScheduleEvaluator._found",
                "core/pipelines/due_fires.py::look",
                "core/pipelines/schedule_calendar.py::fires_between",
                "core/pipelines/overlap_policy.py::rule",
                "ledger/flows/fires.py::Fires.record",
                "ledger/flows/fires.py::_record",
                "ledger/flows/fires.py::_rows_of",
            ),
        ),
        Part(
            "Its flow begins",
            (
                "engine/flows/scheduler.py::Scheduler._go_on",
                "engine/flows/scheduler.py::Scheduler._begin",
                "core/pipelines/overlap_policy.py::startable",
                "ledger/flows/flows.py::Flows.start",
                "engine/flows/scheduler.py::Scheduler._follow",
                "engine/flows/scheduler.py::Scheduler._carry_out",
                "engine/flows/flow_executor.py::FlowExecutor.carry_out",
                "engine/flows/flow_executor.py::FlowExecutor._carried_out",
                "engine/flows/flow_executor.py::FlowExecutor._begun",
                "api/flows/flow_files.py::LocalFiles.begin",
                "api/flows/flow_files.py::LocalFiles._begin",
                "api/flows/flow_input.py::flow_source",
                "api/flows/flow_files.py::LocalFiles._take_in",
                "api/flows/flow_files.py::LocalFiles.follow",
                "engine/flows/stage_executor.py::StageExecutor.until_over",
            ),
        ),
        Part(
            "Its rows go from stage to stage",
            (
                "ledger/transitions/apply_transitions.py::transitions_apply",
                "ledger/transitions/apply_transitions.py::_apply",
                "ledger/transitions/handover_debts.py::owed_write",
                "engine/flows/row_handover.py::RowHandover.serve",
                "engine/flows/row_handover.py::RowHandover.run_once",
                "ledger/flows/handovers.py::Handovers.relays_owed",
                "engine/flows/row_handover.py::RowHandover._serve_lane",
                "engine/flows/row_handover.py::RowHandover._hand_over",
                "ledger/flows/handovers.py::Handovers.owed",
                "engine/flows/row_handover.py::RowHandover._maker",
                "api/flows/flow_files.py::LocalFiles.row_maker",
                "engine/flows/row_mapper.py::RowMapper.made",
                "engine/flows/row_mapper.py::RowMapper._made",
                "engine/flows/row_mapper.py::RowMapper._tried",
                "engine/flows/row_mapper.py::RowMapper._texts",
                "engine/flows/row_mapper.py::RowMapper._called",
                "engine/flows/row_mapper.py::RowMapper._rows",
                "ledger/runs/input_rows.py::packed_rows",
                "ledger/flows/handovers.py::Handovers.hand_over",
                "ledger/runs/runs.py::write_counted",
                "ledger/flows/handovers.py::_hand_over",
                "ledger/flows/handovers.py::rows_put",
                "ledger/runs/input_rows.py::rows_insert",
            ),
        ),
        Part(
            "Those that come together are handed over together, once none of them is open",
            (
                "ledger/transitions/handover_debts.py::_ended",
                "ledger/transitions/group_counts.py::open_add",
                "engine/flows/row_handover.py::RowHandover._hand_over_groups",
                "ledger/flows/groups.py::Groups.ready",
                "engine/flows/row_handover.py::RowHandover._hand_over_group",
                "ledger/flows/groups.py::Groups.members",
                "engine/flows/row_handover.py::RowHandover._gathered",
                "engine/flows/row_mapper.py::RowMapper.gathered",
                "ledger/flows/groups.py::Groups.hand_over",
            ),
        ),
        Part(
            "It ends, once nothing of any stage is left, owed or on its way",
            (
                "api/flows/flow_files.py::LocalFiles.finish",
                "engine/flows/flow_executor.py::FlowExecutor._ended",
                "core/pipelines/flow_lifecycle.py::flow_end",
                "engine/flows/flow_executor.py::FlowExecutor.end",
                "ledger/flows/flows.py::Flows.end",
            ),
        ),
    ),
)

WALKS: Final = (ONE_ROW, ONE_FAILURE, ONE_FIRE)


@cache
def _parsed(path: str) -> tuple[str, ast.Module]:
    source = (ROOT / "orchestrator" / path).read_text(encoding="utf-8")
    return source, ast.parse(source)


def definition(step: str) -> tuple[str, str]:
    """The source and the docstring of a step, which is a class, a method or a function. Raises `LookupError` where there is none."""
    path, _, name = step.partition("::")
    source, node = _parsed(path)
    found: ast.AST = node
    for part in name.split("."):
        inner = [
            each
            for each in ast.iter_child_nodes(found)
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and each.name == part
        ]
        if not inner:
            raise LookupError(step)
        found = inner[-1]
    assert isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    made_by = (ast.get_source_segment(source, decorator) or "" for decorator in found.decorator_list)
    return "\n".join((*made_by, ast.get_source_segment(source, found) or "")), ast.get_docstring(found) or ""


def page() -> str:
    """The page, as Markdown."""
    lines = [
        "# Walks",
        "",
        "<!-- written by `python -m tests.walks`; the suite compares -->",
        "",
        "For those who change the code and want to follow one thing through it, call by call. Each step is named in the body",
        'of one before it, so that "go to definition" leads from one to the next. Paths are below `orchestrator/`.',
        "[Architecture](../architecture.md) has the same in a dozen lines.",
    ]
    for walk in WALKS:
        lines += ["", f"## {walk.title}", "", walk.about, "", f"{len(walk.steps)} steps in {len(walk.files)} files."]
        for part in walk.parts:
            lines += ["", f"{part.title}:", "", *(f"1. `{step}`{_remark(step)}" for step in part.steps)]
    return "\n".join(lines) + "\n"


def _remark(step: str) -> str:
    docstring = " ".join(definition(step)[1].split("\n\n")[0].split())
    first = re.match(r".*?[.](?= |$)", docstring)
    text = (first[0] if first else docstring).rstrip(".")
    return f": {text[0].lower() + text[1:] if text[1:2].islower() else text}" if text else ""


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
