"""Who is woken when, and what shares a transaction."""

from tests.planted.faults.fault import Fault

BATCHES = "tests/ledger/transactions/test_batches.py"
RATE_LIMITER = "tests/client/jobs/test_rate_limiter.py"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what comes during a commit waits for no company",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._drain",
        old="while self._pending and (left > 0 or self._bytes > URGENT_BYTES):",
        new="while self._pending:",
        tests=(f"{BATCHES}::test_what_comes_during_a_commit_waits_for_company",),
    ),
    Fault(
        name="large outputs wait for company",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._drain",
        old="while self._pending and (left > 0 or self._bytes > URGENT_BYTES):",
        new="while self._pending and left > 0:",
        tests=(f"{BATCHES}::test_outputs_that_take_much_memory_wait_for_no_company",),
    ),
    Fault(
        name="each claim has a transaction of its own",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._take_batch",
        old="(entry.block is not None and not entry.is_brief):",
        new="entry.block is not None:",
        tests=(f"{BATCHES}::test_brief_blocks_share_a_transaction_with_all_that_waits",),
    ),
    Fault(
        name="waits end a tick too soon",
        path="orchestrator/ticks.py::until_tick_s",
        old="return -(-at_us // tick_us) * tick_us / SECOND_US - now_s",
        new="return at_us // tick_us * tick_us / SECOND_US - now_s",
        tests=("tests/engine/runtime/test_wakeup.py::test_all_waits_end_at_the_ticks_of_one_clock_and_none_too_soon",),
    ),
    Fault(
        name="a tick is longer than what is caught up",
        path="orchestrator/client/jobs/rate_limiter.py::_Lane._tick_us",
        old="if tick_us <= late_us)",
        new="if late_us)",
        tests=(f"{RATE_LIMITER}::test_turns_come_at_ticks_in_the_order_in_which_they_were_asked_for",),
    ),
    Fault(
        name="where few may go at once nobody looks for the next in time",
        path="orchestrator/engine/sending/lane_sender.py::LaneSender._send",
        old="if not self._claimed:",
        new="if self._claimed is None:",
        tests=("tests/engine/sending/test_dispatcher.py::test_where_few_may_go_at_once_the_next_is_claimed_in_time",),
    ),
    Fault(
        name="who writes down what was learned minds an endpoint that comes in meanwhile",
        path="orchestrator/engine/hosting/endpoint_registry.py::EndpointRegistry.write_down",
        old="in list(self.endpoints.items()):",
        new="in self.endpoints.items():",
        tests=(
            "tests/engine/hosting/test_side_by_side.py::test_an_endpoint_may_come_in_while_what_was_learned_of_the_others_is_written_down",
        ),
    ),
    Fault(
        name="a result may die while we wake up",
        path="orchestrator/core/jobs/deadlines.py::margin_us",
        old="return max(retention_us // 6, WAKING_US)",
        new="return retention_us // 6",
        tests=("tests/core/jobs/test_deadlines.py::test_where_time_runs_very_fast_there_is_time_left_to_wake_up",),
    ),
    Fault(
        name="any number of claims shares a transaction",
        path="orchestrator/ledger/transactions/group_commit.py::GroupCommitWriter._take_batch",
        old="if briefs == BATCH_BRIEF_MAX or (",
        new="if (",
        tests=(f"{BATCHES}::test_so_many_brief_blocks_and_no_more_share_a_transaction",),
    ),
)
