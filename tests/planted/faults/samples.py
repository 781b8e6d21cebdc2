"""What is written down every ten seconds, for charts and metrics."""

from tests.planted.faults.fault import Fault

SAMPLER = "tests/engine/maintenance/test_sampler.py::"
KILLS = SAMPLER + "test_over_kills_what_is_counted_never_falls_and_comes_to_what_the_ledger_has"
SAMPLES = "tests/conformance/test_samples.py::"

FAULTS: tuple[Fault, ...] = (
    Fault(
        name="what a killed process did after its last sample is never counted",
        path="orchestrator/engine/maintenance/sampler.py::Sampler.begin",
        old="after: int | None = min(*ends, *close, newest.position)",
        new="after: int | None = None",
        tests=(KILLS,),
        worlds=("swarm", 0, 8),
    ),
    Fault(
        name="counters begin at nothing with each process",
        path="orchestrator/engine/maintenance/sampler.py::Sampler._learn",
        old="self._runs_before |= {run: found.get(run) for run in fresh}",
        new="self._runs_before |= dict.fromkeys(fresh)",
        tests=(KILLS,),
    ),
    Fault(
        name="steps of the sample's own transaction are in its counts and not in its counters",
        path="orchestrator/engine/maintenance/sampler.py::Sampler._look",
        old="beside = self.steps.beside(untold)",
        new="beside = self.steps.beside(())",
        tests=(SAMPLER + "test_steps_of_the_same_transaction_are_in_its_sample",),
    ),
    Fault(
        name="results that came with the last sample of a run are in it, and counted once more",
        path="orchestrator/engine/maintenance/step_meter.py::StepMeter.forget",
        old="self.add_up()",
        new="pass",
        tests=(SAMPLER + "test_a_result_in_the_transaction_of_a_runs_last_sample_is_counted_once",),
    ),
    Fault(
        name="a run that is over has no last sample",
        path="orchestrator/engine/engine.py::Engine.working",
        old="await self.maintenance.sampler.take()",
        new="pass",
        tests=(SAMPLER + "test_what_ends_with_its_process_has_its_last_sample",),
    ),
    Fault(
        name="samples of a deleted run stay",
        path="orchestrator/ledger/transactions/run_removal.py::run_remove",
        old="*(episodes, run_samples, batches),",
        new="*(episodes, batches),",
        tests=(SAMPLES + "test_a_run_that_is_deleted_takes_its_samples_along",),
    ),
    Fault(
        name="a gap is drawn over",
        path="orchestrator/core/samples/rates.py::is_gap",
        old="return after - before > GAP_STEPS * spacing_s * SECOND_US",
        new="return False",
        tests=("tests/core/samples/test_rates.py::test_over_a_gap_nothing_is_said",),
    ),
    Fault(
        name="what a killed process did since a sample before the first event is counted by nobody",
        path="orchestrator/engine/maintenance/sampler.py::Sampler._of_endpoints",
        old="facts.position or NO_EVENT",
        new="facts.position",
        tests=(
            "tests/engine/maintenance/test_samples_of_several.py::test_what_one_did_that_had_sampled_before_anything_happened_at_all_is_counted_by_whoever_goes_on",
        ),
    ),
)
