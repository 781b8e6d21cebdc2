"""A pipeline as a program writes it: the same as its file, refused in the same words."""

import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from orchestrator import Notify, Pipeline, Schedule, Stage
from orchestrator.api.flows.pipeline_files import read_pipeline
from orchestrator.api.python.pipeline import pipeline_reading
from orchestrator.core.pipelines.pipeline import Pipeline as Definition
from orchestrator.errors import UsageError
from tests.api.flows.test_pipeline_files import NOW, WHOLE


@pytest.fixture
def steps(tmp_path: Path) -> Iterator[Any]:
    """A module of the user's, `steps.py`, that was imported; its folder is that of the pipeline's file."""
    (tmp_path / "steps.py").write_text(
        "import functools\n\n\ndef to_texts(row):\n    return row\n\n\n"
        "cached = functools.lru_cache(to_texts)\ncut = functools.partial(to_texts)\n"
        "class Made:\n    def row(self, row):\n        return row\n"
        "def maker():\n    def row(row):\n        return row\n    return row\n"
    )
    sys.path.insert(0, str(tmp_path))
    yield importlib.import_module("steps")
    sys.path.remove(str(tmp_path))
    del sys.modules["steps"]


def two_stages(**fields: Any) -> tuple[Stage, Stage]:
    return Stage("caption", endpoint="abc123"), Stage("embed", **{"endpoint": "def456", **fields})


def of_file(folder: Path, text: str) -> Definition:
    (folder / "captions.toml").write_text(text)
    return read_pipeline(folder / "captions.toml", NOW)


def test_it_is_the_same_as_its_file(steps: Any, tmp_path: Path) -> None:
    pipeline = Pipeline(
        "captions",
        input=Path("inbox/{previous:%Y-%m-%d}.jsonl"),
        wait_for_input=7_200,
        keep="90d",
        schedule=Schedule(
            cron=("30 2 * * 1-5", "30 2 * * 0,6"),
            zone="Europe/Berlin",
            jitter=timedelta(minutes=5),
            overlap="replace",
            parallel=2,
            catch_up="25h",
            late_after=5400.0,
            pause_after_failures=3,
        ),
        stages=[
            Stage(
                "caption",
                endpoint="abc123",
                max_failed="5%",
                reuse=timedelta(days=30),
                reuse_version="model-4",
                max_attempts=5,
                ttl="2h",
                queue_depth=500,
                low_priority=True,
                check=steps.to_texts,
                price_per_second=0.00025,
                map={"prompt": "{{ row.title }}"},
            ),
            Stage("embed", step=steps.to_texts, endpoint=steps.to_texts, output="out/{previous:%Y-%m-%d}.jsonl"),
            Stage(
                "report",
                from_=["caption", "embed"],
                needs="99.5%",
                command=["python", "report.py", "{file:caption}", "{file:embed}"],
            ),
        ],
        notify=Notify(on=["held", "done"], url="https://example.org/hook", secret="env:HOOK_SECRET"),
        folder=tmp_path,
    )
    told, read = pipeline_reading(pipeline)
    assert told == "Pipeline('captions')"
    assert read(NOW) == of_file(tmp_path, WHOLE)
    assert pipeline_reading(tmp_path / "captions.toml")[1](NOW) == read(NOW)


def test_paths_count_from_the_folder_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert Pipeline("p", input="in", stages=two_stages()).read(NOW).folder == str(tmp_path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda p: msgspec.structs.replace(p, name="a b"), 'name="a b"'),
        (lambda p: msgspec.structs.replace(p, input=None), "input"),
        (lambda p: msgspec.structs.replace(p, input="{day}"), 'input="{day}"'),
        (lambda p: msgspec.structs.replace(p, stages=[]), "stage"),
        (lambda p: msgspec.structs.replace(p, schedule=Schedule(every="1h", zone="Europe/Berln")), "zone"),
        (lambda p: msgspec.structs.replace(p, schedule=Schedule(cron="* * *", parallel=0)), "cron"),
        (lambda p: msgspec.structs.replace(p, stages=two_stages(from_="captoin")), "captoin"),
        (lambda p: msgspec.structs.replace(p, stages=two_stages(output=5)), "output=5"),
        (lambda p: msgspec.structs.replace(p, stages=two_stages(ttl="1s")), "ttl='1s'"),
        (lambda p: msgspec.structs.replace(p, stages=two_stages(step="steps.py:nothing")), "step"),
    ],
)
@pytest.mark.usefixtures("steps")
def test_it_is_refused_in_the_words_of_the_file(
    change: Callable[[Pipeline], Pipeline], text: str, tmp_path: Path
) -> None:
    files = {
        'name="a b"': ('name="p"', 'name="a b"'),
        "input": ('input="in"', ""),
        'input="{day}"': ('input="in"', 'input="{day}"'),
        "stage": ("[stage.caption]\nendpoint='abc123'\n[stage.embed]\nendpoint='def456'", ""),
        "zone": ("[stage.caption]", "[schedule]\nevery='1h'\nzone='Europe/Berln'\n[stage.caption]"),
        "cron": ("[stage.caption]", "[schedule]\ncron='* * *'\nparallel=0\n[stage.caption]"),
        "captoin": ("[stage.embed]", "[stage.embed]\nfrom='captoin'"),
        "output=5": ("[stage.embed]", "[stage.embed]\noutput=5"),
        "ttl='1s'": ("[stage.embed]", "[stage.embed]\nttl='1s'"),
        "step": ("[stage.embed]", "[stage.embed]\nstep='steps.py:nothing'"),
    }
    whole = "name=\"p\"\ninput=\"in\"\n[stage.caption]\nendpoint='abc123'\n[stage.embed]\nendpoint='def456'\n"
    assert files[text][0] in whole
    with pytest.raises(UsageError) as by_file:
        of_file(tmp_path, whole.replace(*files[text]))
    pipeline = change(Pipeline("p", input="in", stages=two_stages(), folder=tmp_path))
    with pytest.raises(UsageError) as by_program:
        pipeline.read(NOW)

    def without_place(raised: Any, place: str) -> list[str]:
        lines = [line.removeprefix(place).lstrip("0123456789:") for line in str(raised.value).splitlines()]
        return [line.lstrip() for line in lines]

    told = f"the pipeline {pipeline.name}"
    assert without_place(by_program, told) == without_place(by_file, f"{tmp_path}/captions.toml")


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (lambda m: lambda row: row, "defines no .*<lambda> at its top"),
        (lambda m: m.cut, "partial"),
        (lambda m: m.Made().row, "defines no Made.row at its top"),
        (lambda m: m.maker(), "defines no .*row at its top"),
        (lambda m: len, "len is in no file that can be imported"),
        (lambda m: 5, "int is in no file"),
        (lambda m: m.to_texts, None),
        (lambda m: m.cached, "defines no"),
    ],
)
def test_a_function_is_named_by_its_file_or_refused(
    steps: Any, tmp_path: Path, step: Callable[[Any], Any], why: str | None
) -> None:
    pipeline = Pipeline("p", input="in", stages=two_stages(step=step(steps)), folder=tmp_path)
    if why is None:
        assert pipeline.read(NOW).stages[1].step == "steps.py:to_texts"
        elsewhere = msgspec.structs.replace(pipeline, folder="/")
        assert elsewhere.read(NOW).stages[1].step == f"{tmp_path / 'steps.py'}:to_texts".lstrip("/")
        return
    with pytest.raises(UsageError, match=f"^the pipeline p: stage.embed.step: .*{why}"):
        pipeline.read(NOW)


def test_a_function_of_the_script_itself_is_refused(steps: Any, tmp_path: Path) -> None:
    steps.__name__ = "__main__"
    with pytest.raises(UsageError, match="put it into a file of its own"):
        Pipeline("p", input="in", stages=two_stages(step=steps.to_texts), folder=tmp_path).read(NOW)


def wrong(**fields: Any) -> Pipeline:
    return Pipeline("p", **{"input": "in", "stages": two_stages(), **fields})


@pytest.mark.parametrize(
    ("pipeline", "why"),
    [
        (wrong(schedule="30 2 * * *"), "schedule: this must be a Schedule"),
        (wrong(notify={"url": "https://x"}), "notify: this must be a Notify"),
        (wrong(stages=Stage("a")), "stages: this must be a list of stages"),
        (wrong(stages=["a"]), "stages: this must be a list of stages"),
        (wrong(stages=[*two_stages(), *two_stages()]), "stage.caption: there are two stages of this name"),
        (wrong(stages=[Stage(5)]), "a stage has a name first"),  # type: ignore[arg-type]
        (wrong(schedule=Schedule(cron=["0 1 * * *", 5])), "schedule.cron: this must be a list of texts"),  # type: ignore[list-item]
        (Pipeline(5, input="in", stages=two_stages()), "name: this must be text"),  # type: ignore[arg-type]
    ],
)
def test_what_is_of_another_type_is_refused(pipeline: Pipeline, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        pipeline.read(NOW)


def test_what_is_no_pipeline_is_refused() -> None:
    with pytest.raises(UsageError, match="not dict"):
        pipeline_reading({"name": "p"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="zzz"):
        Schedule(zzz=1)  # type: ignore[call-arg]
    assert repr(functools.partial(Schedule, cron="0 1 * * *")()) == "Schedule(cron='0 1 * * *')"
