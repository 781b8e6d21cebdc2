"""What flows and runs of a pipeline are called, and that a recorded pipeline is read back as it was."""

import msgspec
import pytest

from orchestrator.core.pipelines.pipeline import INPUT, Notify, Overlap, Pipeline, Schedule, Stage, flow_name, run_name

CAPTIONS = Pipeline(
    name="captions",
    folder="/data",
    input="inbox/{previous:%Y-%m-%d}.jsonl",
    schedule=Schedule(cron=("30 2 * * *",), zone="Europe/Berlin", overlap=Overlap.LATEST),
    stages=(Stage(name="caption", from_=(INPUT,), settings={"endpoint": ("abc123",)}),),
)


def test_a_flow_is_called_after_its_fire_in_utc() -> None:
    assert flow_name("captions", 1_806_195_600_000_000) == "captions@20270328T010000Z"
    assert flow_name("captions", 1_806_195_600_000_000, number=2) == "captions@20270328T010000Z~2"


def test_a_run_is_called_after_its_flow_and_stage() -> None:
    assert run_name("captions@20270328T010000Z", "embed") == "captions@20270328T010000Z/embed"
    assert run_name("captions@20270328T010000Z", "embed", number=3) == "captions@20270328T010000Z/embed~3"


def test_a_pipeline_that_was_recorded_is_the_same() -> None:
    assert msgspec.json.decode(msgspec.json.encode(CAPTIONS), type=Pipeline) == CAPTIONS


def test_a_stage_is_found_by_its_name() -> None:
    assert CAPTIONS.stage("caption") == CAPTIONS.stages[0]
    with pytest.raises(LookupError, match="embed"):
        CAPTIONS.stage("embed")


def test_the_variable_of_its_secret_is_known_by_its_name() -> None:
    pipeline = Pipeline(name="captions", folder="/somewhere", stages=())
    assert pipeline.secret_variables == frozenset()
    signed = msgspec.structs.replace(pipeline, notify=Notify(url="https://you.example/", secret="env:SIGNING"))
    assert signed.secret_variables == {"SIGNING"}
