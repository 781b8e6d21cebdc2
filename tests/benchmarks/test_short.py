"""The benchmarks in the small: that they run and find sensible figures, not how fast this machine is."""

import math

import msgspec
import pytest

from tests.benchmarks import (
    audit,
    batch_api,
    beside,
    chunks,
    commands,
    copies,
    dashboard,
    endpoints,
    files,
    large_on_server,
    official,
    on_server,
    outputs,
    pools,
    program,
    restart,
    runs,
    sampling,
    saves,
    selection,
    steering,
    steps,
)
from tests.benchmarks.figures import Figure, number, quantile, table, this_machine

pytestmark = pytest.mark.system


def value_of(name: str, figures: list[Figure]) -> float:
    return next(figure.value for figure in figures if figure.name == name)


@pytest.mark.slow
def test_rows_that_travel_together_are_done_sooner_than_one_by_one() -> None:
    figures = chunks.chunks(rows=3_000)
    assert value_of("rows", figures) > 120, "one by one they would be 100 a second"


@pytest.mark.slow
def test_images_that_become_files_leave_the_ledger_small() -> None:
    figures = saves.saves(images=20)
    assert value_of("20 images of 3 MB: ledger", figures) < 1
    assert value_of("20 images of 3 MB, not saved: ledger", figures) > 40


@pytest.mark.slow
def test_a_batch_of_openai_s_client_is_posted_and_read() -> None:
    figures = batch_api.batch_api(rows=200)
    assert value_of("200 requests: of them", figures) > 1
    assert 0 < value_of("200 requests: peak memory of serve", figures) < 400


@pytest.mark.slow
def test_a_run_with_webhooks_costs_milliseconds_a_job() -> None:
    figures = runs.webhook(jobs=200)
    assert 0 < value_of("CPU per job", figures) < 100
    assert value_of("first sent to last collected", figures) > 10
    assert value_of("webhook answered, median", figures) < 1_000


@pytest.mark.slow
def test_a_polled_run_costs_milliseconds_a_job() -> None:
    figures = runs.polling(jobs=200)
    assert 0 < value_of("CPU per job", figures) < 100
    assert value_of("first sent to last collected", figures) > 10


@pytest.mark.slow
def test_a_run_within_the_contract_s_limits_draws_no_429() -> None:
    figures = runs.allowance(jobs=100)
    assert value_of("answered 429", figures) == 0
    assert 50 < value_of("use of 1000 /run in 10 s", figures) < 200


@pytest.mark.slow
def test_short_jobs_by_both_lanes_draw_no_429() -> None:
    figures = runs.lanes(jobs=1_000, cost_jobs=200, rounds=1)
    assert (value_of("answered 429", figures), value_of("sent twice", figures)) == (0, 0)
    assert 40 < value_of("of them by /runsync", figures) < 90
    assert value_of("by both lanes, 0.5 s each", figures) > 100


def test_what_is_kept_of_failed_executions_is_a_small_part_of_the_ledger() -> None:
    [figure] = steps.failures(jobs=1_000)
    assert figure.at_most is not None
    assert 0 < figure.value < figure.at_most


@pytest.mark.slow
def test_several_runs_at_several_endpoints_go_side_by_side() -> None:
    figures = endpoints.at_once(3, 100)
    assert value_of("3 endpoints: answered 429", figures) == 0
    assert 20 < value_of("3 endpoints: use of the least used one", figures) < 200
    assert 0 < value_of("3 endpoints: of one core", figures) <= 200


@pytest.mark.slow
def test_members_of_a_pool_are_busy_side_by_side_within_their_limits() -> None:
    figures = pools.members(400)  # how soon pools are done is tested on virtual time, in tests/engine/pools
    assert value_of("answered 429", figures) == 0
    assert value_of("4 members: submissions", figures) > 100
    assert value_of("the least busy member's part of what it may take", figures) > 50


@pytest.mark.slow
def test_a_server_takes_steps_as_a_file_does() -> None:
    figures = on_server.server(jobs=500, pairs=1)
    assert value_of("one writer: of SQLite's steps", figures) > 0.05
    assert 1 < value_of("server's CPU a step", figures) < 1_000


@pytest.mark.slow
def test_a_run_goes_on_on_each_side_of_a_copy() -> None:
    figures = copies.copies(3_000)
    assert value_of("to a server, 3,000 jobs", figures) > 100
    assert value_of("back to a file, 3,000 jobs: peak memory", figures) < 400


@pytest.mark.slow
def test_few_of_many_jobs_are_found_on_a_server() -> None:
    figures = large_on_server.large_on_server(jobs=60_000, taken_in=2_000)
    assert value_of("intake", figures) > 500
    assert value_of("the next 10 behind 20,000, of 60,000", figures) < 1_000


@pytest.mark.slow
def test_two_runs_at_one_endpoint_share_it_by_weight() -> None:
    [figure] = endpoints.shared(150)
    assert 70 < figure.value < 140


@pytest.mark.slow
def test_an_intake_stays_small_and_commands_answer_soon() -> None:
    figures = commands.intake(rows=2_000, repeats=1)
    assert value_of("taken in", figures) > 500
    assert value_of("peak memory", figures) < 400
    assert value_of("status with 2,000 jobs", figures) < 10
    assert value_of("--help", figures) < 10


@pytest.mark.slow
def test_a_program_s_inputs_are_taken_in_as_they_come_and_memory_stays_small() -> None:
    figures = program.program(rows=5_000)
    assert value_of("taken in from a generator", figures) > 1_000
    assert value_of("peak memory", figures) < 400


@pytest.mark.slow
def test_rows_are_taken_in_beside_an_engine_that_goes_on_sending() -> None:
    figures = beside.beside(rows=2_000)
    assert value_of("2,000 rows: taken in", figures) > 100
    assert 0 < value_of("write lock held, longest", figures) < 2_000
    assert value_of("use of 1000 /run in 10 s by the other run meanwhile", figures) > 30


@pytest.mark.slow
def test_a_restart_asks_for_what_is_outstanding() -> None:
    figures = restart.restart(outstanding=100, running_s=None)
    assert 0 < value_of("100 outstanding: start to first useful request", figures) < 60
    assert value_of("100 outstanding: peak memory", figures) < 400


@pytest.mark.slow
def test_a_script_on_the_official_sdk_is_measured_beside_the_program() -> None:
    figures = official.compared(20, official.SHORT_S)
    assert value_of("script on the official SDK", figures) > 0.1
    assert value_of("by webhook, as fast as the script", figures) > 0.01
    assert value_of("by webhook, CPU of the script's", figures) > 0


def test_group_commit_takes_many_steps_a_second() -> None:
    figures = steps.ledger(jobs=300)
    assert value_of("group commit", figures) > 100
    assert value_of("wait for a commit, median", figures) < 1_000


@pytest.mark.slow
def test_an_audit_leaves_room_for_others() -> None:
    figures = audit.verify(jobs=200)
    assert value_of("200 jobs: time", figures) > 0
    assert value_of("200 jobs: peak memory", figures) < 400
    assert value_of("commit of another process beside it, longest", figures) < 10_000


@pytest.mark.slow
def test_jobs_are_chosen_in_milliseconds() -> None:
    figures = selection.selection(jobs=2_000, results=20, runs=50, times=1, only="cluster")
    assert [figure.is_kept for figure in figures if figure.unit == "ms"] == [True, True, True]
    assert sum(figure.unit == "s" for figure in figures) == 4
    assert all(0 < figure.value < 10 for figure in figures if figure.unit == "s")


@pytest.mark.slow
def test_what_a_second_process_asks_is_seen_soon_and_done_to_all_jobs_that_are_meant() -> None:
    figures = steering.steering(jobs=300, at_service=10)
    assert all(figure.value < 10 for figure in figures if figure.name.endswith("seen"))
    assert value_of("/cancel answered 429", figures) == 0
    assert value_of("most /cancel in any 10 s", figures) >= 20


@pytest.mark.slow
def test_no_more_large_outputs_are_held_at_once_than_fit_into_a_page() -> None:
    figures = outputs.large_ledger(jobs=18, output_bytes=6_000_000)
    assert {name: value_of(f"{name}: peak memory", figures) < 200 for name in ("resume", "results", "verify")} == {
        "resume": True, "results": True, "verify": True
    }  # fmt: skip


@pytest.mark.slow
def test_pages_of_a_ledger_are_small_and_soon_there() -> None:
    figures = dashboard.dashboard(jobs=8_000, runs=8, pipelines=3, times=3, beside=False)
    by_name = {figure.name: figure for figure in figures}
    assert by_name["largest page"].is_kept
    assert by_name["most memory"].is_kept
    assert 0 < by_name["slowest page, p95"].value < 2_000
    assert 0 < by_name["slowest refresh, p95"].value < 2_000
    assert 50 < by_name["series of a scrape"].value <= dashboard.SERIES_MAX


@pytest.mark.slow
def test_sampling_costs_an_engine_little() -> None:
    cost = sampling.sampling_cost(jobs=200, runs=2, pairs=3)  # of one alone the difference may be below nothing
    assert 0 < cost.sample_ms < 100
    assert 0 < cost.counted_us < 100
    assert 0 < cost.jobs_per_s < 1_000
    assert 0 < cost.percent < 10


def test_what_sampling_costs_is_told_of_what_is_left_without_it() -> None:
    cost = sampling.SamplingCost(sample_ms=5.0, counted_us=2.0, engine_ms=1.002, jobs_per_s=100.0)
    assert cost.percent == pytest.approx(0.7)


def test_a_figure_knows_whether_its_promise_is_kept() -> None:
    figure = Figure(benchmark="b", name="n", value=2, unit="ms")
    assert figure.is_kept is None
    assert msgspec.structs.replace(figure, at_most=2).is_kept is True
    assert msgspec.structs.replace(figure, at_most=1).is_kept is False
    assert msgspec.structs.replace(figure, at_least=2).is_kept is True
    assert msgspec.structs.replace(figure, at_least=3).is_kept is False


def test_numbers_have_three_significant_digits() -> None:
    assert [number(value) for value in (0, 0.0742, 0.8, 99.61, 41_327.4, 1_000_000, math.nan)] == [
        "0", "0.0742", "0.800", "99.6", "41,327", "1,000,000", "nan",
    ]  # fmt: skip


def test_a_quantile_is_a_value_that_was_measured() -> None:
    assert quantile([3, 1, 2], 0.5) == 2
    assert quantile([3, 1, 2], 0.99) == 3
    assert quantile([1], 0) == 1
    assert math.isnan(quantile([], 0.5))


def test_the_table_aligns_figures_and_promises() -> None:
    figures = [
        Figure(benchmark="webhook", name="CPU per job", value=0.742, unit="ms", at_most=0.8),
        Figure(benchmark="ledger", name="group commit", value=12_340, unit="steps/s", at_least=20_000),
        Figure(benchmark="ledger", name="wait", value=13.9, unit="ms"),
    ]
    assert table(figures).splitlines() == [
        "webhook  CPU per job    0.742 ms       <= 0.800 ms        kept",
        "ledger   group commit  12,340 steps/s  >= 20,000 steps/s  MISSED",
        "ledger   wait            13.9 ms",
    ]


def test_the_machine_is_told_in_one_line() -> None:
    assert "cores" in str(this_machine())


@pytest.mark.slow
def test_files_of_some_megabytes_are_read_and_written_in_little_memory() -> None:
    figures = files.files(rows=5_000, scale=0.004, read=("csv",), written=("parquet",))
    assert value_of("csv: read", figures) > 500
    assert value_of("parquet: written", figures) > 500
    growth = [figure.value for figure in figures if figure.unit == "MB"]
    assert (len(growth), 0 < max(growth) < 200) == (2, True)
