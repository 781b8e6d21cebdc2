"""Outputs that a run's validator rejects are no results: tried again by policy, kept, and told of by their kinds."""

import json
import threading
from pathlib import Path

import pytest

from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.service.job_record import Record
from orchestrator.engine.collecting.validation_pool import WAITING_MAX, ValidationPool
from orchestrator.engine.user_code.functions import UserFunctions
from orchestrator.errors import UsageError
from orchestrator.settings.parsers.job_parsers import parse_check
from orchestrator.settings.run_settings import CHECK, SCHEMA, RunSettings
from orchestrator.settings.words_and_defaults import Pinned
from tests.engine.collecting.test_webhook_inbox import submission_of, tell
from tests.engine.process import Process, process
from tests.engine.scripted import Scripted, in_turn, says
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

WANTS_TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "pattern": "^[a-z]+$"}}}
GOOD = says("COMPLETED", output={"text": "good"})
BAD = says("COMPLETED", output={"text": 7})

CHECKS = """
import sys, threading

def positive(output):
    if output["n"] < 0:
        raise ValueError(f"n is {output['n']}")
    return output["n"] != 0

def nothing(output):
    pass

def dies(output):
    sys.exit("enough")

async def later(output):
    return True
"""


def schema(tmp_path: Path, document: object = WANTS_TEXT) -> Pinned:
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(document))
    return SCHEMA.value_type.read((str(path),))


def check(tmp_path: Path, function: str, text: str = CHECKS) -> Pinned:
    path = tmp_path / "checks.py"
    path.write_text(text)
    return CHECK.value_type.read((f"{path}:{function}",))


async def ended(p: Process) -> None:
    await p.begin()
    await p.finish()


async def test_an_output_that_does_not_fit_is_tried_again_by_run(tmp_path: Path) -> None:
    transport = Scripted(status=in_turn(BAD, GOOD))
    async with process(tmp_path / "db", transport, settings=RunSettings(schema=schema(tmp_path))) as p:
        await ended(p)
        story = ["claimed", "accepted", "retried invalid_output", "claimed", "accepted", "completed"]
        assert await p.story() == story
        assert len(transport.of("run")) == 2
        assert [each.output for each in await p.results()] == [b'{"text":"good"}']


async def test_the_last_one_is_kept_with_what_is_wrong_with_it(tmp_path: Path) -> None:
    settings = RunSettings(schema=schema(tmp_path), max_attempts=2)
    async with process(tmp_path / "db", Scripted(status=BAD), settings=settings) as p:
        await ended(p)
        [failed] = await p.failures()
        assert (failed.state, failed.trouble, failed.attempts) == (State.FAILED, "invalid_output", 2)
        assert failed.output == b'{"text":7}'
        assert failed.message == 'at output.text, the value is not of type "string"'


async def test_a_job_without_any_output_has_null_for_the_schema(tmp_path: Path) -> None:
    settings = RunSettings(schema=schema(tmp_path), max_attempts=1)
    async with process(tmp_path / "db", Scripted(status=says("COMPLETED")), settings=settings) as p:
        await ended(p)
        [failed] = await p.failures()
        assert failed.message == 'at output, the value is not of type "object"'


async def test_the_same_mistake_in_different_outputs_is_one_kind_of_failure(tmp_path: Path) -> None:
    document = {"type": "array", "items": {"type": "string"}}
    bad = [says("COMPLETED", output=["a", 1]), says("COMPLETED", output=["a", "b", 23, "c"])]
    settings = RunSettings(schema=schema(tmp_path, document), max_attempts=1)
    async with process(tmp_path / "db", Scripted(status=in_turn(*bad)), jobs=2, settings=settings) as p:
        await ended(p)
        kinds, failed = await p.ledger.reports.job_queries.clustered(p.run.id)
        assert (kinds, failed) == (1, 2)


@pytest.mark.parametrize(
    ("function", "n", "message"),
    [
        ("positive", 1, None),
        ("positive", 0, "the check has returned False"),
        ("positive", -3, "ValueError: n is -3"),
        ("nothing", 1, "the check has returned None"),
    ],
)
async def test_a_function_says_what_a_good_output_is(
    tmp_path: Path, function: str, n: int, message: str | None
) -> None:
    settings = RunSettings(check=check(tmp_path, function), max_attempts=1)
    async with process(tmp_path / "db", Scripted(status=says("COMPLETED", output={"n": n})), settings=settings) as p:
        await ended(p)
        assert [each.message for each in await p.failures()] == ([] if message is None else [message])


async def test_null_is_no_output_where_one_is_required(tmp_path: Path) -> None:
    settings = RunSettings(output_required=True, max_attempts=1)
    async with process(tmp_path / "db", Scripted(status=says("COMPLETED", output=None)), settings=settings) as p:
        await ended(p)
        [failed] = await p.failures()
        assert (failed.trouble, failed.message) == ("invalid_output", "the output is null")


async def test_it_is_told_once_that_results_are_empty(tmp_path: Path) -> None:
    async with process(tmp_path / "db", Scripted(status=says("COMPLETED", output=None)), jobs=50) as p:
        await ended(p)
        [told] = p.warnings
        assert told.startswith("20 results have no output, or null")
        assert "<setting require-output>" in told


# --- what cannot be judged is kept, and the run is held


async def test_a_check_that_dies_costs_no_result_and_holds_the_run(tmp_path: Path) -> None:
    settings = RunSettings(check=check(tmp_path, "dies"))
    async with process(tmp_path / "db", Scripted(status=GOOD), settings=settings) as p:
        await ended(p)
        assert [each.output for each in await p.results()] == [b'{"text":"good"}']
        assert "it ended with SystemExit" in (p.endpoint.why_stopped(p.run.id) or "")
        assert "runs recheck" in (p.endpoint.why_stopped(p.run.id) or "")
        assert "not judged" in (await p.events())[-1].reason


async def test_another_process_holds_the_run_where_the_file_has_changed(tmp_path: Path) -> None:
    settings = RunSettings(schema=schema(tmp_path))
    async with process(tmp_path / "db", Scripted(status=GOOD)) as p:
        run = await p.ledger.runs.create(name="other", service_url=URL, endpoint="b", source="/y", settings=settings)
        schema(tmp_path, {"type": "null"})
        why = await p.engine.host.serve(run)
        assert "the file has changed since the run was given it" in (why or "")
        assert p.engine.runs.unservable[run.id].why == why


async def test_too_many_that_wait_are_kept_unjudged(tmp_path: Path) -> None:
    validators = ValidationPool({1: RunSettings(schema=schema(tmp_path))}, lambda _: None)
    validators._waiting = WAITING_MAX
    judged = await validators.judged(1, Record(remote_id="a", status="COMPLETED", output=b"1"))
    assert judged.invalid is None
    assert "1,000 outputs wait for it already" in (judged.unjudged or "")


# --- nothing stays


ENDS_S = 30.0


class Code(UserFunctions):
    """Tells whether it was let go of."""

    is_closed = False

    def close(self) -> None:
        self.is_closed = True


async def test_with_its_engine_ends_who_judged_for_it(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    settings = RunSettings(schema=schema(tmp_path))
    async with process(tmp_path / "db", Scripted(status=GOOD), settings=settings) as p:
        await ended(p)
        judges = [thread for thread in {*threading.enumerate()} - before if thread.name == "checks of outputs"]
        assert len(judges) == 1
    judges[0].join(ENDS_S)
    assert not judges[0].is_alive()


async def test_the_functions_that_judged_are_let_go_of(tmp_path: Path) -> None:
    made = list[Code]()

    def make() -> Code:
        made.append(Code())
        return made[-1]

    validators = ValidationPool({}, lambda _: None, make_code=make)
    for settings in (
        RunSettings(check=check(tmp_path, "positive")),
        RunSettings(schema=schema(tmp_path)),
        RunSettings(),
    ):
        validators.load(settings)
    assert [code.is_closed for code in made] == [False]
    validators.leave()
    assert [code.is_closed for code in made] == [True]


# --- by webhooks


async def test_what_a_webhook_brings_is_judged_while_others_go_on(tmp_path: Path) -> None:
    settings = RunSettings(schema=schema(tmp_path), max_attempts=1)
    async with process(tmp_path / "db", Scripted(), webhooks=True, jobs=2, settings=settings) as p:
        await p.start("dispatcher", "inbox")
        await p.until(State.OUTSTANDING, 2)
        await tell(p, await submission_of(p, 1), says("COMPLETED", "r-1", output={"text": 7}))
        await tell(p, await submission_of(p, 2), says("COMPLETED", "r-2", output={"text": "good"}))
        await p.finish()
        assert [each.output for each in await p.results()] == [b'{"text":"good"}']
        assert [each.output for each in await p.failures()] == [b'{"text":7}']


async def test_a_job_does_not_fail_by_what_contradicts_a_result_that_is_being_judged(tmp_path: Path) -> None:
    settings = RunSettings(schema=schema(tmp_path))
    async with process(tmp_path / "db", Scripted(), webhooks=True, settings=settings) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p), says("FAILED", "r-1"))
        await tell(p, await submission_of(p), says("COMPLETED", "r-1", output={"text": "good"}))
        await p.start("inbox")
        await p.finish()
        assert await p.story() == ["claimed", "accepted", "completed"]


async def test_what_was_noted_last_is_judged_before_the_end(tmp_path: Path) -> None:
    settings = RunSettings(schema=schema(tmp_path), max_attempts=1)
    async with process(tmp_path / "db", Scripted(), webhooks=True, settings=settings) as p:
        await p.start("dispatcher")
        await p.until(State.OUTSTANDING)
        await tell(p, await submission_of(p, 1), says("COMPLETED", "r-1", output={"text": 7}))
        await p.inbox.catch_up()
        assert [each.trouble for each in await p.failures()] == ["invalid_output"]


# --- refused before anything is sent


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"type": "strin"}, "this is no JSON Schema at /type"),
        ({"$ref": "https://example.com/other.json"}, "may only refer to itself"),
        ({"$ref": "other.json"}, "may only refer to itself"),
        ({"pattern": "(a)\\1"}, "this is no JSON Schema at /pattern"),
        ([], "this is no JSON Schema"),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(tmp_path: Path, document: object, message: str) -> None:
    validators = ValidationPool({}, lambda _: None)
    with pytest.raises(UsageError, match=message):
        validators.load(RunSettings(schema=schema(tmp_path, document)))


@pytest.mark.parametrize(
    ("function", "text", "message"),
    [
        ("absent", CHECKS, "defines no absent"),
        ("later", CHECKS, "must be a plain function"),
        ("positive", "import nowhere_to_be_found", "importing .* failed: ModuleNotFoundError"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused(tmp_path: Path, function: str, text: str, message: str) -> None:
    validators = ValidationPool({}, lambda _: None)
    with pytest.raises(UsageError, match=message):
        validators.load(RunSettings(check=check(tmp_path, function, text)))


@pytest.mark.parametrize("text", ["", "check", "mod:", ":f", "no_such_module_here:f", "a-b:f", "missing.py:f", "x/y:f"])
def test_a_function_that_is_not_there_is_refused_as_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match=r"function|module|file"):
        parse_check(text)


def test_a_module_that_can_be_imported_is_found_as_a_module() -> None:
    pinned = parse_check("json:loads")
    assert pinned.ref == "json:loads"
    assert len(pinned.sha256) == 64
