"""A pipeline's file, read: from TOML to a `Pipeline`, with all that is wrong with it, each with its place.

Nothing of it is carried out here but the import of its functions.
"""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from orchestrator.api.flows.stage_settings import stage_choices
from orchestrator.api.runs.settings_check import check_not_planned, check_run_endpoint, check_usable
from orchestrator.core.pipelines.flow_paths import fire_problems, template_problems
from orchestrator.core.pipelines.pipeline import ALL, INPUT, Notify, Pipeline, Schedule, Stage
from orchestrator.core.pipelines.stage_graph import in_order, problems
from orchestrator.core.text.name_match import nearest
from orchestrator.errors import UsageError, message_of
from orchestrator.formats.templates.field_templates import check_templates
from orchestrator.settings import command_flags, input_settings, pipeline_keys, run_request, run_settings
from orchestrator.settings.configuration_file import KEY_ADVICE
from orchestrator.settings.parsers.name_parsers import members_in
from orchestrator.settings.run_checks import check_together
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.setting import Setting
from orchestrator.settings.sources import is_of_file
from orchestrator.settings.tables.toml_values import fits, toml_texts
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.user_code import load_function

PROBLEMS_MAX: Final = 20

_HEADER: Final = re.compile(r"\s*\[\s*([^\[\]]+?)\s*\]")
_KEY: Final = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*=""")

_INPUTS: Final = {("", "input"), ("", "input-command")}
_TIMES: Final = {("schedule", "cron"), ("schedule", "every")}
_OF_INPUT: Final = frozenset(setting.key for setting in input_settings.INPUTS)
_TABLES: Final = ("schedule", "stage", "notify")


def read_pipeline(path: Path, now: int) -> Pipeline:
    """What the file says. Raises `UsageError` with everything that is wrong with it; `now` decides which fires are the
    next.
    """
    try:
        text = path.read_text(encoding="utf-8")
        members = tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{path}: the pipeline's file cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UsageError(f"{path}: this is not TOML: {error}") from None
    return _Reading(str(path), path.resolve().parent, _lines(text), now).read(members)


def read_tables(members: dict[str, Any], told: str, folder: Path, now: int) -> Pipeline:
    """The same of what a program says, as tables; `told` is what it is called where something is wrong with it."""
    return _Reading(told, folder, {}, now).read(members)


def _lines(text: str) -> Mapping[tuple[str, str], int]:
    """Where each key stands, by its table, and each table, by an empty key: as far as they have lines of their own."""
    table, found = "", dict[tuple[str, str], int]()
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            table = re.sub(r"\s*\.\s*|[\"']", lambda found: found[0].strip().strip("\"'"), header[1])
            found.setdefault((table, ""), number)
        elif key := _KEY.match(line):
            found.setdefault((table, key[1]), number)
    return found


class _Reading:
    """One file, while it is read. What is wrong is collected, so that all of it can be told at once."""

    def __init__(self, told: str, folder: Path, lines: Mapping[tuple[str, str], int], now: int) -> None:
        self._told = told
        self._now = now
        self._folder = folder
        self._lines = lines
        self._found: list[tuple[int, str]] = []
        """What is wrong, with its line."""

        self._wrong: set[tuple[str, str]] = set()
        """The tables and keys that are."""

    @property
    def _problems(self) -> list[str]:
        """What is wrong, in the order of the file; not very much of it."""
        found = [text for _, text in sorted(self._found)]
        more = [f"... and {len(found) - PROBLEMS_MAX} more"] if len(found) > PROBLEMS_MAX else []
        return found[:PROBLEMS_MAX] + more

    def read(self, members: dict[str, Any]) -> Pipeline:
        """The whole. Raises `UsageError` with all that is wrong."""
        pipeline = self._pipeline(members)
        if pipeline is None or self._found:
            raise UsageError("\n".join(self._problems))
        return pipeline

    def _pipeline(self, members: dict[str, Any]) -> Pipeline | None:
        """The same; None where something of it cannot be made at all."""
        tables = {name: self._table(members, name) for name in _TABLES if name in members}
        fields = self._fields("", members, pipeline_keys.PIPELINE, beside=_TABLES)
        schedule = self._schedule(tables["schedule"]) if "schedule" in tables else None
        notify = self._notify(tables["notify"]) if "notify" in tables else None
        stages = self._stages(tables.get("stage", {}))
        if "name" not in members:
            self._add("", "", 'the pipeline has no name; write name = "..."')
        if bool(fields.get("input")) == bool(fields.get("input_command")) and not self._wrong & _INPUTS:
            self._add("", "", "write either input or input-command")
        if self._wrong:
            return None
        pipeline = Pipeline(folder=str(self._folder), schedule=schedule, stages=stages, notify=notify, **fields)
        for table, key, why in tuple(template_problems(pipeline)) or fire_problems(pipeline, self._now):
            self._add(table, key, why)
        return pipeline

    def _table(self, members: dict[str, Any], name: str) -> dict[str, Any]:
        table = members.pop(name)
        if isinstance(table, dict):
            return table
        self._add("", name, f"this must be a table: [{'stage.NAME' if name == 'stage' else name}]")
        return {}

    # --- the schedule, and who is told

    def _schedule(self, members: Mapping[str, Any]) -> Schedule:
        schedule = Schedule(**self._fields("schedule", members, pipeline_keys.SCHEDULE))
        every_us = schedule.every_us
        if bool(schedule.cron) == (every_us is not None) and not self._wrong & _TIMES:
            self._add("schedule", "every" if schedule.cron else "", "write either cron or every")
        if schedule.offset_us and not 0 < schedule.offset_us < (every_us or 0):
            self._add("schedule", "offset", "the offset is part of every: shorter than it, and not for cron")
        return schedule

    def _notify(self, members: Mapping[str, Any]) -> Notify:
        notify = Notify(**self._fields("notify", members, pipeline_keys.NOTIFY))
        if notify.url and notify.command:
            self._add("notify", "", "write either url or command; more of them are targets: to")
        if not (notify.url or notify.command or notify.to):
            self._add("notify", "", "write to, url or command")
        if notify.secret and not notify.url:
            self._add("notify", "secret", "it signs what is posted to a url; a command needs none")
        return notify

    # --- stages

    def _stages(self, tables: Mapping[str, Any]) -> tuple[Stage, ...]:
        stages: list[Stage] = []
        if not tables:
            self._add("", "", "the pipeline has no stage; write [stage.NAME] and, below it, endpoint")
        for name, members in tables.items():
            table = f"stage.{name}"
            if not isinstance(members, dict):
                self._add("stage", name, "this must be a table: [stage.NAME]")
                continue
            try:
                pipeline_keys.parse_pipeline_name(name)
            except ValueError as error:
                self._add(table, "", message_of(error))
            if name in (INPUT, ALL):
                self._add(table, "", f"{name} means something else here; call the stage differently")
            stages.append(self._stage(table, name, stages[-1].name if stages else INPUT, members))
        self._check_sources(stages)
        if self._wrong:
            return ()
        for name, key, why in problems(stages):
            self._add(f"stage.{name}", key, why)
        try:
            return in_order(stages)
        except ValueError as error:
            self._add("", "", message_of(error))
            return ()

    def _stage(self, table: str, name: str, before: str, members: Mapping[str, Any]) -> Stage:
        own = {each.key for each in pipeline_keys.STAGE}
        fields = self._fields(table, {key: members[key] for key in members if _key(key) in own}, pipeline_keys.STAGE)
        settings = self._texts(table, {key: members[key] for key in members if _key(key) not in own})
        stage = Stage(name=name, settings=settings, **{"from_": (before,), **fields})
        self._check_endpoint(table, stage)
        if not self._wrong:
            try:
                if not is_of_file(stage.settings.get(run_request.ENDPOINT.key, ("",))):  # else once that is looked up
                    check_stage(stage)
            except UsageError as error:
                self._add(table, "", message_of(error))
        if stage.step is not None:
            try:
                load_function(str(self._folder / stage.step), "step")  # run as for a `local:` endpoint
            except UsageError as error:
                self._add(table, pipeline_keys.STEP.key, message_of(error))
        if stage.reuse_version and stage.reuse_us is None:
            self._add(table, pipeline_keys.REUSE_VERSION.key, "it is for reuse, which is missing")
        return stage

    def _check_endpoint(self, table: str, stage: Stage) -> None:
        endpoint = run_request.ENDPOINT.key
        if bool(stage.command) == (endpoint in stage.settings) and (table, endpoint) not in self._wrong:
            self._add(table, endpoint if stage.command else "", "a stage has either an endpoint or a command")
        elif stage.command:
            taken = {setting.key for setting in pipeline_keys.STAGE_COMMAND}
            for key in sorted(stage.settings.keys() - taken):
                self._add(table, key, f"a command has no jobs at an endpoint; it takes {', '.join(sorted(taken))}")

    def _check_sources(self, stages: Iterable[Stage]) -> None:
        names = [stage.name for stage in stages]
        for stage in stages:
            for each in stage.from_:
                if each not in (*names, INPUT):
                    near = nearest(each, names)
                    advice = f"did you mean {near}?" if near else f"there are {', '.join(names)}"
                    self._add(f"stage.{stage.name}", "from", f'there is no stage "{each:.40}"; {advice}')
            for key in sorted(stage.settings.keys() & _OF_INPUT) if INPUT not in stage.from_ else ():
                self._add(f"stage.{stage.name}", key, "it says how the input is read, and this stage does not read it")
            if INPUT in stage.from_ and len(stage.from_) > 1:
                self._add(f"stage.{stage.name}", "from", "rows of the input and of a stage do not mix")

    def _texts(self, table: str, members: Mapping[str, Any]) -> Mapping[str, tuple[str, ...]]:
        """The settings of a stage's run, each found to be readable."""
        found = {}
        for setting, key, told in self._given(table, members, pipeline_keys.STAGE_RUN):
            given = tuple(self._placed(setting, each) for each in told)
            try:
                read = setting.value_type.read(given)
                if setting in pipeline_keys.STAGE_CHECKED:
                    check_usable(
                        RunSettings(**{run_settings.MAX_ATTEMPTS.name: run_settings.ATTEMPTS_MAX, setting.name: read})
                    )
                if setting is input_settings.MAP:
                    check_templates(setting.value_type.read(given))
                if setting in pipeline_keys.STAGE_FILES:
                    pipeline_keys.output_template(given[-1])
            except (ValueError, UsageError) as error:
                self._add(table, key, message_of(error))
            found[setting.key] = given
        return found

    def _placed(self, setting: Setting[Any], text: str) -> str:
        """A file or a function of the user's, with its full path: it counts from the folder of the pipeline's file."""
        if setting is run_request.ENDPOINT and text.startswith(LOCAL):
            return ",".join(f"{LOCAL}{self._folder / each.removeprefix(LOCAL)}" for each in members_in(text))
        is_function = setting is run_settings.CHECK and text.rpartition(":")[0].endswith(".py")
        return str(self._folder / text) if is_function or (setting is run_settings.SCHEMA and text) else text

    # --- keys and values

    def _fields(
        self, table: str, members: Mapping[str, Any], settings: Iterable[Setting[Any]], *, beside: Iterable[str] = ()
    ) -> dict[str, Any]:
        """The fields that a table gives its value."""
        found = {}
        for setting, key, given in self._given(table, members, settings, beside=beside):
            try:
                found[setting.name] = setting.value_type.read(given)
            except ValueError as error:
                self._add(table, key, message_of(error))
        return found

    def _given(
        self, table: str, members: Mapping[str, Any], settings: Iterable[Setting[Any]], *, beside: Iterable[str] = ()
    ) -> Iterator[tuple[Setting[Any], str, tuple[str, ...]]]:
        """Each key that a table has, with its texts. What is no key of it is told."""
        known = {setting.key: setting for setting in settings}
        for key, value in members.items():
            setting = known.get(_key(key))
            if setting is None:
                self._add(table, key, self._unknown(table, key, [*known, *beside]))
            elif not fits(value, setting.value_type.kind):
                self._add(table, key, f"this must be {setting.value_type.kind.value.format(key=key)}")
            else:
                yield setting, key, toml_texts(value)

    @staticmethod
    def _unknown(table: str, key: str, known: list[str]) -> str:
        name = _key(key)
        if table.startswith("stage."):
            if name in (setting.key for setting in command_flags.RUN):
                return "this belongs to the process that serves, or to one command: it cannot be set for a stage"
            known = [*(setting.key for setting in pipeline_keys.STAGE), *known]
        if "api-key" in name:
            return f"it cannot be set here; {KEY_ADVICE}"
        near = nearest(name, known)
        return f'there is no key "{key:.40}"; ' + (f"did you mean {near}?" if near else f"there are {', '.join(known)}")

    def _add(self, table: str, key: str, problem: str) -> None:
        self._wrong.add((table, key))
        line = self._lines.get((table, key)) or self._lines.get((table, ""), 0)
        where = f"{self._told}:{line}" if line else self._told
        named = ".".join(filter(None, (table, key)))
        self._found.append((line, f"{where}: {named}: {problem}" if named else f"{where}: {problem}"))


def check_stage(stage: Stage) -> None:
    """Raises `UsageError` where what the stage says of its run does not agree."""
    choices = stage_choices(stage)
    settings, endpoint = choices.run_settings(), choices[run_request.ENDPOINT]
    check_together(settings, lambda setting: setting.key)
    check_not_planned(settings, lambda setting: setting.key)
    if endpoint is not None:
        check_run_endpoint(settings, endpoint, settings.members, lambda setting: setting.key)


def _key(name: str) -> str:
    return name.replace("_", "-")
