"""`orchestrator init`: three questions, and a first configuration file."""

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple, TextIO

import msgspec
import typer

from orchestrator.api.runs.service_connection import connection_of
from orchestrator.cli.framework.endpoint_names import with_endpoint_id
from orchestrator.cli.framework.flags import Flags, option
from orchestrator.cli.framework.runner import execute, exit_if_refused
from orchestrator.cli.output import streams
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, connection_settings, run_request
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.sources import Choices, choose
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.stores.object_url import location_of

if TYPE_CHECKING:
    from orchestrator.api.planning.first_config import Initialized, InitRequest  # at run time `--help` would pay for it

UNREADY_EXIT_CODE: Final = 1
"""The file is written, and something is to be done before a run can begin."""

CONFIG_DEFAULT: Final = "orchestrator.toml"
INPUT_DEFAULT: Final = "prompts.jsonl"
OUTPUT_DEFAULT: Final = "results.jsonl"

Endpoint = Annotated[
    str | None,
    option(run_request.ENDPOINT, "The endpoint's id or name, or local:FILE.py:FUNCTION; else it is asked."),
]
Input = Annotated[str | None, typer.Option("--input", metavar="FILE", help="The input; else it is asked.")]
Output = Annotated[str | None, option(run_request.OUTPUT, "Where the results are to go; else it is asked.")]
ServerlessUrl = Annotated[str | None, option(connection_settings.SERVERLESS_URL)]
Config = Annotated[
    Path, typer.Option(str(command_flags.CONFIG), metavar="FILE", help="The file to write.", show_default=True)
]
Force = Annotated[bool, typer.Option("--force", metavar="", help="Write it although it is there already.")]
Json = Annotated[bool | None, option(command_flags.JSON, "What was written and found, as JSON.")]


def init(
    endpoint: Endpoint = None,
    input: Input = None,  # noqa: A002  its flag is --input
    output: Output = None,
    serverless_url: ServerlessUrl = None,
    config: Config = Path(CONFIG_DEFAULT),
    force: Force = False,
    json: Json = None,
) -> None:
    """Write a first configuration file, by three questions.

    It asks for the endpoint, the input and where the results go, looks whether the endpoint takes the key, and says
    the next command. Nothing is sent that costs anything.

    Examples:
        orchestrator init
        orchestrator init --endpoint abc123 --input prompts.jsonl --output results.jsonl
    """
    given = {"endpoint": endpoint, "output": output, "serverless_url": serverless_url, "json": json}
    with exit_if_refused():
        if config.exists() and not force:
            raise UsageError(f"{config} is there already; --force writes it anew, {command_flags.CONFIG} another file")
        choices = _choices(given)
        answers = asked((choices.text(run_request.ENDPOINT), input, choices.text(run_request.OUTPUT)), sys.stdin)
        request = _request(answers, given, config, force=force)
    work = partial(_init, request, as_json=bool(json))
    raise typer.Exit(execute(work, needs="orchestrator.api.planning.first_config"))


class Answers(NamedTuple):
    """What a first file is to say."""

    endpoint: str
    source: str
    output: str


class _Question(NamedTuple):
    flag: str
    text: str
    default: str
    check: Callable[[str], object]


_QUESTIONS: Final = (
    _Question(
        str(run_request.ENDPOINT),
        "Which endpoint (its id, its name, or local:FILE.py:FUNCTION)?",
        "",
        lambda text: run_request.ENDPOINT.value_type.read([text]),
    ),
    _Question("--input", "Which file has the input?", INPUT_DEFAULT, location_of),
    _Question(
        str(run_request.OUTPUT),
        "Where do the results go?",
        OUTPUT_DEFAULT,
        lambda text: run_request.OUTPUT.value_type.read([text]),
    ),
)


def asked(given: Sequence[str | None], terminal: TextIO) -> Answers:
    """The answers: those that were `given`, and what a person at the `terminal` says to the other questions.

    Raises `UsageError` where nobody is there to be asked.
    """
    missing = [question.flag for question, text in zip(_QUESTIONS, given, strict=True) if text is None]
    if missing and not terminal.isatty():
        raise UsageError(f"nobody is here to ask; give {', '.join(missing)}. Nothing was written")
    answers = [
        _answer(question, terminal) if text is None else text for question, text in zip(_QUESTIONS, given, strict=True)
    ]
    return Answers(*answers)


def _answer(question: _Question, terminal: TextIO) -> str:
    """Asked again until it can be used."""
    while True:
        streams.say(f"{question.text}{f' [{question.default}]' if question.default else ''}", end=" ")
        if not (line := terminal.readline()):
            raise UsageError("the questions were not answered; nothing was written")
        try:
            if text := line.strip() or question.default:
                question.check(text)
                return text
        except (ValueError, UsageError) as error:
            streams.complain(str(error))


def _request(answers: Answers, flags: Flags, config: Path, *, force: bool) -> "InitRequest":
    from orchestrator.api.planning.first_config import InitRequest

    flags = {**flags, "endpoint": answers.endpoint, "output": answers.output}
    choices = _choices(flags)
    local = answers.endpoint.startswith(LOCAL)
    connection = ConnectionSettings() if local else connection_of(choices, os.environ, among=command_flags.DOCTOR)
    if not local and connection.api_key is not None:  # a name has an id, which is asked how it is
        choices = _choices(with_endpoint_id({**flags, command_flags.CONFIG.name: os.devnull}))
    return InitRequest(
        config=config,
        endpoint=answers.endpoint,
        endpoint_id=choices.text(run_request.ENDPOINT) or answers.endpoint,
        input=answers.source,
        output=location_of(answers.output, is_written=True),
        serverless_url=choices[connection_settings.SERVERLESS_URL] if flags["serverless_url"] is not None else None,
        connection=connection,
        overwrite=force,
    )


def _choices(flags: Flags) -> Choices:
    """What flags and variables say; no file does, since it is about to be written."""
    return choose({**flags, command_flags.CONFIG.name: os.devnull}, os.environ)


async def _init(request: "InitRequest", as_json: bool) -> int:
    from orchestrator.api.planning.first_config import init

    found = await init(request)
    show_initialized(found, as_json=as_json)
    return 0 if found.is_ready else UNREADY_EXIT_CODE


def show_initialized(found: "Initialized", *, as_json: bool) -> None:
    """Prints what was written, what is to be done first, and the next command."""
    commands = next_commands(found)
    if as_json:
        streams.put_json({**msgspec.structs.asdict(found), "ready": found.is_ready, "next": commands[-1]})
    streams.say(f"{found.config} is written")
    for line in _found_lines(found):
        streams.say(line)
    for problem in _problems(found):
        streams.warn(problem)
    streams.headline("next:" if found.is_ready else "then:")
    for command in commands:
        streams.say(f"  {command}")


def next_commands(found: "Initialized") -> list[str]:
    """What is given next: a look at how it would go, and the run."""
    words = [found.input, *(command_flags.CONFIG.words(found.config) if found.config != CONFIG_DEFAULT else ())]
    run = shlex.join(["orchestrator", "run", *words])
    return [f"{run} {command_flags.DRY_RUN}", run]


def _found_lines(found: "Initialized") -> Iterator[str]:
    if found.diagnosis is not None:
        yield from (f"asked, and well: {each}" for each in found.diagnosis.asked if not found.diagnosis.needs_person)
    elif found.function_problem is None:
        yield f"{found.endpoint}: the function is there"


def _problems(found: "Initialized") -> Iterator[str]:
    file, _, function = found.endpoint.removeprefix(LOCAL).rpartition(":")
    match found.function_problem:
        case None:
            pass
        case "no_file":
            yield f"{file} is not there yet"
        case "not_python":
            yield f"{file} cannot be read as Python"
        case _:
            yield f"{file} has no {function}"
    if found.diagnosis is not None:
        yield from (f"{each.about}: {each.sentence}; {each.advice}" for each in found.diagnosis.findings)
        yield from (f"not asked: {each}" for each in found.diagnosis.not_asked)
    if not found.input_exists:
        yield f"{found.input} is not there yet"
