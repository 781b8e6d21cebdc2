"""`init`: writes the first configuration file of a folder, and looks whether what it names can be used.

Nothing is sent that costs anything: an endpoint is asked how it is, and a function's file is read, not run.
"""

import ast
import json
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import msgspec

from orchestrator.api.inspect.doctor import doctor
from orchestrator.core.diagnosis.causes import Diagnosis
from orchestrator.core.text.object_urls import is_object_url
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import StorageError, UsageError
from orchestrator.settings import connection_settings, run_request, run_settings
from orchestrator.settings.command_requests import DoctorRequest
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.parsers import job_policy
from orchestrator.settings.setting import Setting
from orchestrator.settings.words_and_defaults import LOCAL
from orchestrator.stores.object_url import Location, ObjectUrl, asked_about

_HEAD: Final = """\
# Settings of orchestrator in this folder: `orchestrator run` and the other commands read them.
# Flags and ORCHESTRATOR_... variables win over them; `orchestrator help configuration` says more.
# The API key does not stand here: export ORCHESTRATOR_API_KEY=...
"""

_SUGGESTED: Final[tuple[tuple[Setting[Any], str], ...]] = (
    (run_request.LEDGER, '"orchestrator.db"'),
    (run_settings.MAX_ATTEMPTS, "3"),
    (job_policy.EXECUTION_TIMEOUT, '"10m"'),
    (run_settings.REQUIRE_OUTPUT, "true"),
    (run_settings.PRICE_PER_SECOND, "0.00031"),
    (run_settings.BUDGET, "50"),
)
"""What many want next, each with a value, as comments."""


class InitRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the file is to say."""

    config: Path
    endpoint: str
    """An id, a name, or `local:FILE.py:FUNCTION`."""

    endpoint_id: str
    """What is asked how it is; for a name, the id that it has."""

    input: str
    output: Location
    serverless_url: str | None = None
    """Where the service is, if that was said."""

    connection: ConnectionSettings = ConnectionSettings()
    overwrite: bool = False


class FunctionProblem(StrEnum):
    """Why a function of the user's cannot be used."""

    NO_FILE = "no_file"
    NOT_PYTHON = "not_python"
    NO_FUNCTION = "no_function"


class Initialized(msgspec.Struct, frozen=True, kw_only=True):
    """What was written, and what was found of what it names."""

    config: str
    endpoint: str
    input: str
    output: str
    input_exists: bool
    function_problem: FunctionProblem | None = None
    diagnosis: Diagnosis | None = None
    """Of the endpoint; None for a function of the user's."""

    @property
    def is_ready(self) -> bool:
        """Whether a run can begin: a person has to do nothing first."""
        found = self.diagnosis
        is_asked = found is None or (not found.needs_person and not found.not_asked)
        return self.function_problem is None and is_asked and self.input_exists


async def init(request: InitRequest, dependencies: Dependencies | None = None) -> Initialized:
    """Writes the file, and looks at the endpoint and the input. Raises `UsageError` where the file is there already,
    and `StorageError` where it cannot be written.
    """
    _write(request)
    local = request.endpoint.startswith(LOCAL)
    asked = DoctorRequest(
        ledger=request.config.parent / "no-ledger-is-looked-at",
        endpoint=request.endpoint_id,
        connection=request.connection,
    )
    return Initialized(
        config=str(request.config),
        endpoint=request.endpoint,
        input=request.input,
        output=str(request.output),
        input_exists=await asked_about(lambda: _is_there(request.input), request.input),
        function_problem=_function_problem(request.endpoint) if local else None,
        diagnosis=None if local else await doctor(asked, dependencies),
    )


def config_text(request: InitRequest) -> str:
    """The file."""
    chosen: list[tuple[Setting[Any], str]] = [
        (run_request.ENDPOINT, request.endpoint),
        (run_request.OUTPUT, str(request.output)),
    ]
    if request.serverless_url is not None:
        chosen.append((connection_settings.SERVERLESS_URL, request.serverless_url))
    lines = [_HEAD]
    lines += [f"# {_comment(each)}\n{each.key} = {json.dumps(text, ensure_ascii=False)}\n" for each, text in chosen]
    lines += [f"# {_comment(each)}\n# {each.key} = {value}\n" for each, value in _SUGGESTED]
    return "\n".join(lines)


def _comment(setting: Setting[Any]) -> str:
    return f"{(setting.brief or setting.help.split('. ')[0]).partition('. ')[0].partition(';')[0].rstrip('.')}."


def _write(request: InitRequest) -> None:
    try:
        with request.config.open("w" if request.overwrite else "x", encoding="utf-8") as file:
            file.write(config_text(request))
    except FileExistsError:
        raise UsageError(f"{request.config} is there already, and stays as it is") from None
    except OSError as error:
        raise StorageError(f"{request.config} cannot be written: {error.strerror}") from None


def _is_there(given: str) -> bool:
    if is_object_url(given):
        try:
            return any(each.exists() for each in ObjectUrl.parsed(given).matching())
        except (OSError, UsageError):  # the run itself says why not
            return False
    return given == "-" or Path(given).exists() or any(Path().glob(given) if not Path(given).is_absolute() else ())


def _function_problem(endpoint: str) -> FunctionProblem | None:
    """Looked for in the file's text: what a file does when it is imported is the user's own."""
    file, _, function = endpoint.removeprefix(LOCAL).rpartition(":")
    try:
        module = ast.parse(Path(file).read_text(encoding="utf-8"))
    except OSError:
        return FunctionProblem.NO_FILE
    except (SyntaxError, ValueError):
        return FunctionProblem.NOT_PYTHON
    return None if function in _names(module) else FunctionProblem.NO_FUNCTION


def _names(module: ast.Module) -> set[str]:
    """What a module may call so: what it defines, imports or assigns."""
    found = set()
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
            case _:
                pass
    return found
