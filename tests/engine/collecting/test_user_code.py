"""Steps, checks, handlers, templates and inputs that raise whatever can be raised: a failed job, or the caller's error."""

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.pipelines.pipeline import Stage
from orchestrator.core.service.job_record import Record
from orchestrator.core.service.row_variables import NO_VARIABLES
from orchestrator.core.text.durations import Policy
from orchestrator.emulator.workers.handler_call import run_handler
from orchestrator.emulator.workers.handlers import Handler
from orchestrator.engine.collecting.validation_pool import ValidationPool
from orchestrator.engine.flows.row_mapper import RowMapper
from orchestrator.engine.ports.dependencies import is_folder
from orchestrator.formats.templates.field_templates import template_of
from orchestrator.ledger.flows.handover_rows import OwedRow
from orchestrator.settings.parsers.job_parsers import parse_check
from orchestrator.settings.run_settings import RunSettings
from tests.emulator.workers.test_handlers import Reports, execution
from tests.raising import IN_THREADS, KINDS, file_of_functions, raises

pytestmark = pytest.mark.anyio


def maker(folder: Path, step: str) -> RowMapper:
    return RowMapper(
        stage=Stage(name="embed", from_=("caption",), step=f"steps.py:{step}", settings={}),
        folder=folder,
        is_folder=is_folder,
        variables=NO_VARIABLES,
        policy=Policy(),
        webhook_bytes=0,
        body_bytes_max=1 << 20,
        is_resumable=False,
        now=lambda: 0,
    )


def owed(number: int = 1) -> OwedRow:
    return OwedRow(
        job=number,
        custom_id=f"r{number}",
        line=number,
        state=State.SUCCEEDED,
        stored_input=b'{"n":1}',
        packed_input=0,
        stored=b'{"m":2}',
        packed=0,
    )


@pytest.mark.slow
async def test_whatever_a_step_raises_its_row_has_failed_and_the_others_have_not(tmp_path: Path) -> None:
    file = file_of_functions(tmp_path / "steps.py")
    file.write_text(file.read_text() + "\ndef good(value):\n    return {'kept': value['output']}\n")
    for kind in IN_THREADS:
        [made] = await anyio.to_thread.run_sync(maker(tmp_path, kind).made, [owed()])
        assert made.error is not None, kind
        assert made.error.encode(), kind
        assert made.rows == (), kind
    assert [each.error for each in maker(tmp_path, "good").made([owed(1), owed(2)])] == [None, None]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def step(row):\n    yield {'n': 1}\n    raises('cancelled')", "CancelledError"),
        ("def step(row): return [{'n': 1}, 5]", "int, not a dict"),
        (
            "class Row(UserDict):\n    def __iter__(self): raises('own')\ndef step(row): return Row(n=1)",
            "OfTheirOwn",
        ),
        (
            "class Rows:\n    def __iter__(self): raises('generator_exit')\ndef step(row): return Rows()",
            "GeneratorExit",
        ),
    ],
)
def test_what_a_step_returns_may_raise_as_well(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "steps.py").write_text(f"from collections import UserDict\nfrom tests.raising import raises\n{text}\n")
    [made] = maker(tmp_path, "step").made([owed()])
    assert said in (made.error or "")


@pytest.mark.slow
async def test_whatever_a_check_raises_says_that_an_output_is_none_or_that_nobody_could_say(tmp_path: Path) -> None:
    file = file_of_functions(tmp_path / "checks.py")
    record = Record(remote_id=None, status="COMPLETED", output=b"1")
    for kind in IN_THREADS:
        validators = ValidationPool({1: RunSettings(check=parse_check(f"{file}:{kind}"))}, lambda _: None)
        judged = await validators.judged(1, record)
        assert (judged.invalid is None) is not (judged.unjudged is None), kind


def handlers(kind: str) -> Iterator[Handler]:
    async def waits(_: Mapping[str, Any]) -> None:
        await anyio.lowlevel.checkpoint()
        raises(kind)

    def generates(_: Mapping[str, Any]) -> Iterator[int]:
        yield 1
        raises(kind)

    async def generates_slowly(_: Mapping[str, Any]) -> AsyncIterator[int]:
        yield 1
        raises(kind)

    yield lambda _: raises(kind)
    yield waits
    yield generates
    yield generates_slowly
    yield lambda job: waits(job)  # noqa: PLW0108  a plain function that hands back what is to be awaited


@pytest.mark.parametrize("kind", KINDS)
async def test_whatever_a_handler_raises_its_execution_has_failed(kind: str) -> None:
    for handler in handlers(kind):
        with anyio.fail_after(60):
            result = await run_handler(handler, execution(), anyio.CapacityLimiter(1), Reports())
        assert result.error
        assert result.error.encode()


@pytest.mark.parametrize(
    "text",
    [
        "{{ row.n / 0 }}",
        "{{ row.missing }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{{ " + "(" * 3_000 + "1" + ")" * 3_000 + " }}",
        "{% for n in row.n %}{% endfor %}",
    ],
)
def test_whatever_goes_wrong_with_a_template_is_said_in_words(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as said:
        template_of(text)({"n": 1})
    assert type(said.value) is ValueError
