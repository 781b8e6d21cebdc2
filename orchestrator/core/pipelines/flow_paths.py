"""Which files a flow reads and writes, and which of them cannot be told apart."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import Final

from orchestrator.core.pipelines.pipeline import Pipeline, Schedule
from orchestrator.core.pipelines.placeholders import Moment, Word, expanded, placeholders, with_doubled
from orchestrator.core.pipelines.schedule_calendar import next_fires, previous_fire
from orchestrator.core.text.durations import format_duration
from orchestrator.core.text.object_urls import is_object_url

FIRES_CHECKED: Final = 1_000
"""The paths of so many fires to come have to differ."""

PATH_KEYS: Final = ("output", "errors")
"""The settings of a stage that are paths."""

SAVE_KEY: Final = "save"
"""That of a stage whose texts are `output.MEMBER=FILE`."""

OF_ROWS: Final = ("custom_id", "n")
"""The placeholders of such a file that differ from row to row."""

Problem = tuple[str, str, str]
"""What is wrong: its table in the pipeline's file, its key, and why."""


def moment(pipeline: Pipeline, fire_us: int, number: int = 1) -> Moment:
    """What the placeholders of the flow of that fire stand for."""
    schedule = pipeline.schedule
    previous_us = previous_fire(schedule, fire_us) if schedule is not None else None
    return Moment(pipeline.name, fire_us, previous_us, schedule.zone if schedule is not None else "UTC", number)


def filled_template(pipeline: Pipeline, template: str, at: Moment) -> str:
    """The full path, or the URL, that `template` means for one flow."""
    filled = expanded(template, at, {})
    return filled if is_object_url(filled) else str(PurePosixPath(pipeline.folder) / filled)


def needs_folder(pipeline: Pipeline) -> bool:
    """Whether anything of it is in its folder, or runs there."""
    told = pipeline.notify is not None and pipeline.notify.command
    runs_there = told or pipeline.input_command or any(stage.step or stage.command for stage in pipeline.stages)
    settings = [text for stage in pipeline.stages for texts in stage.settings.values() for text in texts]
    is_there = any(each.startswith(f"{pipeline.folder}/") for each in settings)
    paths = [each for each in templates(pipeline).values() if not is_object_url(each)]
    return bool(runs_there) or is_there or not all(PurePosixPath(each).is_absolute() for each in paths)


def awaited_folder(folder: str) -> str:
    """What is said of a flow that waits, since nothing of its pipeline is on the machine that carries out flows."""
    return f"it waits for a machine that has the folder {folder}"


def templates(pipeline: Pipeline) -> Mapping[tuple[str, str], str]:
    """The paths as they are written, by table and key of the pipeline's file."""
    found = {("", "input"): pipeline.input} if pipeline.input is not None else {}
    for stage in pipeline.stages:
        for key in PATH_KEYS:
            if key in stage.settings:
                found[f"stage.{stage.name}", key] = stage.settings[key][-1]
        for number, text in enumerate(stage.settings.get(SAVE_KEY, ()), start=1):
            key = SAVE_KEY if number == 1 else f"{SAVE_KEY} {number}"
            found[f"stage.{stage.name}", key] = _saved_to(text)
    return found


def _saved_to(text: str) -> str:
    """The path in `output.MEMBER=FILE`, of which what differs from row to row stays for the run."""
    return with_doubled(text.partition("=")[2].strip(), OF_ROWS)


def filled_save(pipeline: Pipeline, text: str, at: Moment) -> str:
    """`text`, which says what a member of outputs is saved to, for one flow."""
    return f"{text.partition('=')[0]}={filled_template(pipeline, _saved_to(text), at)}"


def template_problems(pipeline: Pipeline) -> Iterator[Problem]:
    """Which placeholders stand where they mean nothing."""
    everywhere = [(table, key, text) for (table, key), text in templates(pipeline).items()]
    everywhere += [("", "input-command", text) for text in pipeline.input_command]
    for stage in pipeline.stages:
        everywhere += [(f"stage.{stage.name}", "command", text) for text in stage.command]
    if pipeline.notify is not None and any(map(placeholders, pipeline.notify.command)):
        yield "notify", "command", "placeholders are not for it: all that there is to say comes on its standard input"
    for table, key, text in everywhere:
        for word, argument in placeholders(text):
            if word is Word.PREVIOUS and pipeline.schedule is None:
                yield table, key, "without a schedule there is no fire before: {previous} means nothing"
            if word is Word.FILE:
                sources = pipeline.stage(table.removeprefix("stage.")).from_ if key == "command" else ()
                if argument not in sources:
                    yield table, key, f"{{file:{argument}}} is for a command that has {argument} in its from"


def fire_problems(pipeline: Pipeline, after_us: int) -> Iterator[Problem]:
    """What the next fires have in common that they must not."""
    if pipeline.schedule is None:
        return
    fires = next_fires(pipeline.schedule, after_us, FIRES_CHECKED)
    yield from _of_jitter(pipeline.schedule, fires)
    later = [Moment(pipeline.name, fire, before, pipeline.schedule.zone) for before, fire in pairwise(fires)]
    moments = [moment(pipeline, fires[0]), *later]
    seen: dict[str, tuple[str, str, Moment]] = {}
    for (table, key), template in templates(pipeline).items():
        if key == "input" and not _is_of_its_fire(template):
            continue  # each flow reads the same file: that is what it says
        for each in moments:
            rendered = filled_template(pipeline, template, each)
            if rendered in seen:
                yield table, key, _clash(rendered, each, seen[rendered])
                break
            seen[rendered] = table, key, each


def _of_jitter(schedule: Schedule, fires: Sequence[int]) -> Iterator[Problem]:
    shortest_us = min((after - before for before, after in pairwise(fires)), default=0)
    if 2 * schedule.jitter_us > shortest_us:
        half = format_duration(shortest_us // 2)
        yield "schedule", "jitter", f"it is longer than half of the shortest time between two fires; at most {half} is"


def _is_of_its_fire(template: str) -> bool:
    return any(word is not Word.FILE for word, _ in placeholders(template))


def _clash(rendered: str, at: Moment, other: tuple[str, str, Moment]) -> str:
    table, key, before = other
    if before.fire_us == at.fire_us:
        return f"{rendered} is {'.'.join(filter(None, (table, key)))}, too"
    return (
        f"{rendered} would be that of {before.flow} and of {at.flow}; name more of the time in it,"
        " and %z where the clock is turned back: {fire:%Y-%m-%dT%H%M%z}"
    )
