"""What the pages and the docstrings show of Python runs as it stands."""

import ast
import inspect
import re
import shutil
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType
from typing import Any

import anyio
import pytest

import orchestrator
from orchestrator import Flow, Job, Notify, Orchestrator, Pipeline, Result, Run, Schedule, Stage
from orchestrator.api.runs.keyword_options import OF_RUN, OF_SERVICE
from orchestrator.emulator.pytest_fixture import emulated_service
from orchestrator.errors import OrchestratorError

__all__ = ["emulated_service"]

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "how-to" / "python.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(page: str) -> list[str]:
    """The examples of a page."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def example_of(documented: object) -> str:
    """The example in a docstring: what is indented at its end."""
    lines = (inspect.getdoc(documented) or "").splitlines()
    return textwrap.dedent("\n".join(line for line in lines if line.startswith("    ")))


def compiled(example: str) -> CodeType:
    """It may wait at its top level, as in a notebook."""
    code: CodeType = compile(example, "example", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    return code


def execute(example: str, namespace: dict[str, Any]) -> None:
    waiting = eval(compiled(example), namespace)
    if waiting is not None:

        async def wait() -> None:
            await waiting

        anyio.run(wait)


STEPS = 'def to_texts(row):\n    return {"prompt": row["output"]["caption"]}\n'
"""The module that the page speaks of."""


def caption(job: Mapping[str, Any]) -> object:
    return {"caption": job["input"].get("prompt")}


@pytest.fixture
def at_a_service(emulated_service: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A folder of one's own with what pipelines need there, and a service that the environment names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "steps.py").write_text(STEPS)
    (tmp_path / "inbox").mkdir()
    for day in range(32):
        rows = "".join(f'{{"prompt": "a night of {n}"}}\n' for n in range(2))
        (tmp_path / "inbox" / f"2027-03-{day:02}.jsonl").write_text(rows)
    for name, value in emulated_service(caption, keys=("any",)).environment().items():
        monkeypatch.setenv(name, value)
    sys.path.insert(0, str(tmp_path))
    yield
    sys.path.remove(str(tmp_path))
    sys.modules.pop("steps", None)


@pytest.mark.usefixtures("at_a_service")
@pytest.mark.parametrize("example", blocks(README))
def test_the_examples_of_the_readme_run_as_they_stand(example: str, capsys: pytest.CaptureFixture[str]) -> None:
    execute(example, {})

    assert capsys.readouterr().out.count("'caption': 'a ") == 20


@pytest.mark.slow
@pytest.mark.usefixtures("at_a_service")
def test_the_examples_of_the_page_run_one_after_the_other(capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, Any] = {}
    for example in blocks(PAGE):
        execute(example, namespace)

    printed = capsys.readouterr().out
    assert printed.count("'caption': 'a lighthouse") + printed.count("'caption': 'a harbour'") == 22
    assert "2 of 2" in printed
    assert "captions recorded and fires next at" in printed
    assert printed.count("'caption': 'a night of") == 2
    for line in ("captions@20270328T013000Z succeeded 2", "captions@20270329T013000Z succeeded 2"):
        assert line in printed.splitlines()
    assert [line for line in printed.splitlines() if line.endswith("Z succeeded")] == [
        "captions@20270330T003000Z succeeded",
        "captions@20270331T003000Z succeeded",
    ]
    assert namespace["outputs"] == ["AHOY"]


@pytest.mark.slow
@pytest.mark.usefixtures("at_a_service")
def test_the_examples_of_the_docstrings_run_as_they_stand() -> None:
    async def main() -> None:
        namespace: dict[str, Any] = {"Orchestrator": Orchestrator, "Job": Job, "orchestrator": orchestrator}
        namespace["inputs"] = [{"prompt": "a lighthouse"}]
        alone: list[object] = [Orchestrator, orchestrator.map, Job, Schedule, Notify, Stage, Pipeline]
        alone += [orchestrator.apply, orchestrator.trigger, orchestrator.backfill]
        namespace |= {"Pipeline": Pipeline, "Schedule": Schedule, "Stage": Stage, "Notify": Notify, "anyio": anyio}
        for documented in alone:
            await executed(documented, namespace)
        async with Orchestrator() as orc:
            namespace["orc"] = orc
            within: list[object] = [Orchestrator.submit, Orchestrator.append, Run, Orchestrator.map, Orchestrator.run]
            within += [Run.retry, Run.failures]
            within += [Orchestrator.apply, Flow, Orchestrator.trigger, Orchestrator.flow, Orchestrator.backfill]
            within += [Orchestrator.serve]
            for documented in within:
                await executed(documented, namespace)
        assert isinstance(namespace["result"], Result)
        await executed(Result, namespace)

    async def executed(documented: object, namespace: dict[str, Any]) -> None:
        example = example_of(documented)
        assert example, documented
        shutil.rmtree("out", ignore_errors=True)  # each example has a ledger of its own, and files of others stay
        waiting = eval(compiled(example), namespace)
        if waiting is not None:
            await waiting

    anyio.run(main)


def test_the_public_names_are_few_documented_and_listed() -> None:
    assert dir(orchestrator) == sorted([*orchestrator.__all__, "__version__"])
    assert len(orchestrator.__all__) <= 20
    for name in orchestrator.__all__:
        public = getattr(orchestrator, name)
        assert f"`{name}" in PAGE, name
        assert inspect.getdoc(public), name
        if inspect.isclass(public) and not issubclass(public, OrchestratorError):
            members = [each for each, value in vars(public).items() if not each.startswith("_") and callable(value)]
            assert [each for each in members if not inspect.getdoc(getattr(public, each))] == [], name


@pytest.mark.parametrize("option", [*OF_RUN, *OF_SERVICE])
def test_every_option_stands_on_the_page(option: str) -> None:
    assert f"`{option}`" in PAGE
