"""The files of flows: what they are called, and which cannot be told apart."""

from typing import Any

import pytest
from msgspec.structs import replace

from orchestrator.core.pipelines.flow_paths import (
    awaited_folder,
    filled_save,
    filled_template,
    fire_problems,
    moment,
    needs_folder,
    template_problems,
)
from orchestrator.core.pipelines.pipeline import INPUT, Notify, Pipeline, Schedule, Stage
from orchestrator.units import HOUR_US, MINUTE_US

NOW = 1_806_000_000_000_000
DAILY = Schedule(cron=("30 2 * * *",), zone="Europe/Berlin")
TURNED = Schedule(cron=("0 * * 10 *",), zone="Europe/Berlin")
HOURLY = Schedule(cron=("0 * * * *",), zone="Europe/Berlin")


def pipeline(
    input: str | None = "in/{fire:%Y-%m-%d}.jsonl",  # noqa: A002  as the file calls it
    *,
    output: str = "out/{flow}.jsonl",
    schedule: Schedule | None = DAILY,
    command: tuple[str, ...] = (),
) -> Pipeline:
    return Pipeline(
        name="captions",
        folder="/data",
        input=input,
        input_command=() if input else ("rows", "{fire:%Y}"),
        schedule=schedule,
        stages=(
            Stage(name="caption", from_=(INPUT,), settings={"endpoint": ("abc",), "output": (output,)}),
            Stage(name="report", from_=("caption",), command=command),
        ),
    )


def test_paths_count_from_the_folder_of_the_pipeline() -> None:
    given = pipeline()
    at = moment(given, 1_806_195_600_000_000)
    assert filled_template(given, "in/{previous:%m-%d}.jsonl", at) == "/data/in/03-27.jsonl"
    assert filled_template(given, "/srv/{fire:%m-%d}.jsonl", at) == "/srv/03-28.jsonl"


ELSEWHERE = pipeline("s3://rows/{flow}.jsonl", output="/srv/{flow}.jsonl")


def with_stage(**more: Any) -> Pipeline:
    first, last = ELSEWHERE.stages
    return replace(ELSEWHERE, stages=(first, replace(last, **more)))


@pytest.mark.parametrize(
    ("given", "is_needed"),
    [
        (ELSEWHERE, False),
        (replace(ELSEWHERE, notify=Notify(url="https://ops.test")), False),
        (replace(ELSEWHERE, notify=Notify(command=("./tell",))), True),
        (replace(ELSEWHERE, input="in.jsonl"), True),
        (replace(ELSEWHERE, input=None, input_command=("rows",)), True),
        (with_stage(step="steps.py:f"), True),
        (with_stage(command=("report",)), True),
        (with_stage(settings={"errors": ("bad.jsonl",)}), True),
        (with_stage(settings={"schema": ("/data/schema.json",)}), True),
        (with_stage(settings={"schema": ("/database/schema.json",)}), False),
    ],
)
def test_a_pipeline_needs_its_folder_where_something_of_it_is_there(given: Pipeline, is_needed: bool) -> None:
    assert needs_folder(given) is is_needed
    assert awaited_folder(given.folder) == "it waits for a machine that has the folder /data"


def test_without_a_schedule_times_are_utc_and_there_is_no_fire_before() -> None:
    assert moment(pipeline(schedule=None), NOW) == ("captions", NOW, None, "UTC", 1)
    assert list(fire_problems(pipeline(schedule=None), NOW)) == []


def test_paths_that_differ_have_no_problems() -> None:
    for given in (pipeline(), pipeline("rows.jsonl"), pipeline(None)):
        assert list(template_problems(given)) == list(fire_problems(given, NOW)) == []


@pytest.mark.parametrize(
    ("given", "where", "why"),
    [
        (pipeline(schedule=HOURLY), ("", "input"), "in/2027-03-25.jsonl would be that of captions@20270325T"),
        (pipeline("in/{fire:%m-%dT%H}", schedule=TURNED), ("", "input"), "and %z where the clock is turned back"),
        (pipeline(output="out.jsonl"), ("stage.caption", "output"), "/data/out.jsonl would be that of"),
        (pipeline(output="in/{fire:%Y-%m-%d}.jsonl"), ("stage.caption", "output"), "is input, too"),
        (
            pipeline(schedule=replace(DAILY, jitter_us=12 * HOUR_US)),
            ("schedule", "jitter"),
            "at most 705 min is",
        ),
    ],
    ids=["same input", "same hour twice", "same output", "input written", "jitter"],
)
def test_fires_that_share_what_they_must_not_are_refused(given: Pipeline, where: tuple[str, str], why: str) -> None:
    [(table, key, said)] = fire_problems(given, NOW)
    assert (table, key) == where
    assert why in said


def saving(*texts: str) -> Pipeline:
    """The pipeline, of whose outputs members become files."""
    given = pipeline()
    caption, report = given.stages
    return replace(given, stages=(replace(caption, settings={**caption.settings, "save": texts}), report))


def test_files_of_members_have_names_of_their_fire_and_of_their_rows() -> None:
    text = "output.images.*=out/{{x}}/{fire:%F}/{custom_id}-{n}.png"
    given = saving(text)
    assert list(template_problems(given)) == list(fire_problems(given, NOW)) == []
    filled = filled_save(given, text, moment(given, 1_806_195_600_000_000))
    assert filled == "output.images.*=/data/out/{{x}}/2027-03-28/{custom_id}-{n}.png"


def test_objects_of_members_are_where_they_are() -> None:
    text = "output.image=s3://bucket/{fire:%F}/{custom_id}.png"
    given = saving(text)
    filled = filled_save(given, text, moment(given, 1_806_195_600_000_000))
    assert filled == "output.image=s3://bucket/2027-03-28/{custom_id}.png"


def test_files_of_members_that_two_fires_would_share_are_refused() -> None:
    given = saving("output.a=a/{flow}/{custom_id}", "output.b=b/{custom_id}.png")
    [(table, key, why)] = fire_problems(given, NOW)
    assert (table, key) == ("stage.caption", "save 2")
    assert why.startswith("/data/b/{custom_id}.png would be that of captions@")


def test_jitter_up_to_half_of_the_time_between_is_fine() -> None:
    every = Schedule(every_us=HOUR_US, jitter_us=30 * MINUTE_US)
    assert list(fire_problems(pipeline("in/{fire:%Y-%m-%dT%H}", schedule=every), NOW)) == []


@pytest.mark.parametrize(
    ("given", "where", "why"),
    [
        (pipeline("{previous:%Y}", schedule=None), ("", "input"), "without a schedule"),
        (
            pipeline(output="{file:caption}"),
            ("stage.caption", "output"),
            "is for a command that has caption in its from",
        ),
        (pipeline(command=("cat", "{file:embed}")), ("stage.report", "command"), "has embed in its from"),
    ],
    ids=["previous", "file", "file of another"],
)
def test_placeholders_that_mean_nothing_there_are_refused(given: Pipeline, where: tuple[str, str], why: str) -> None:
    [(table, key, said)] = template_problems(given)
    assert (table, key) == where
    assert why in said


def test_a_command_may_name_the_results_of_what_hands_over_to_it() -> None:
    assert list(template_problems(pipeline(command=("cat", "{file:caption}")))) == []


def test_a_command_that_is_told_has_braces_and_no_placeholders() -> None:
    def telling(*command: str) -> Pipeline:
        return replace(pipeline(), notify=Notify(command=command))

    assert list(template_problems(telling("mail", "{{all}}"))) == []
    [(table, key, why)] = template_problems(telling("mail", "{flow}"))
    assert (table, key) == ("notify", "command")
    assert "standard input" in why


def test_a_url_counts_from_no_folder() -> None:
    one = pipeline("s3://bucket/in/{fire:%Y-%m-%d}.jsonl", output="s3://bucket/out/{flow}.jsonl")
    assert filled_template(one, str(one.input), moment(one, NOW)) == "s3://bucket/in/2027-03-25.jsonl"
