"""Where the inputs of a program go: which endpoint, which run, and whether it can be reached."""

from datetime import UTC, datetime
from pathlib import Path

from orchestrator.api.python.inputs import NO_FILE, Inputs, endpoint_of, source_of
from orchestrator.api.python.ledger_session import LedgerSession
from orchestrator.api.runs.keyword_options import Function, display_name
from orchestrator.api.runs.service_connection import check_listener
from orchestrator.api.runs.settings_check import check_not_planned, check_usable
from orchestrator.core.service.addresses import leads_to_loopback
from orchestrator.core.service.profiles import is_by_url, is_same_account
from orchestrator.engine.ports.local_endpoints import absolute_endpoint, is_local
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings.connection_settings import place_for, whose
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import LOCAL, STANDARD_INPUT
from orchestrator.stores.object_url import asked_about, location_of
from orchestrator.units import SECOND_US


def target_of(session: LedgerSession, endpoint: str | Function) -> tuple[str, str]:
    """The service URL and the endpoint, as the ledger keeps them. Raises `UsageError` for a function in no file."""
    if not isinstance(endpoint, str):
        name = endpoint_of(endpoint)
        session.know(name, endpoint)
        return LOCAL, name
    if is_local(endpoint):
        name = absolute_endpoint(endpoint)
        file = name.removeprefix(LOCAL).rpartition(":")[0]
        if not Path(file).is_file():
            raise UsageError(f"endpoint={endpoint!r}: there is no file {file}")
        return LOCAL, name
    return place_for(endpoint, session.connection.serverless_url), endpoint


async def check_settings(settings: RunSettings) -> None:
    """Raises `UsageError` where no run can have them."""
    await asked_about(lambda: check_usable(settings, display_name), *(rule.folder for rule in settings.save))
    check_not_planned(settings, display_name)


def check_reachable(session: LedgerSession, choices: Choices, run: Run) -> None:
    """Raises `UsageError` where nothing could be sent for `run`."""
    url = run.service_url
    if url == LOCAL:
        if run.endpoint.startswith(LOCAL + NO_FILE) and run.endpoint not in session.functions:
            raise UsageError(f"the run {run.name!r} is for a function of a program's: give that function as endpoint=")
        return
    if not is_same_account(url, session.connection.serverless_url):
        raise UsageError(f"the run {run.name!r} {whose(url)}; a program gives profile=")
    if is_by_url(url):
        session.connection.check_reach(run.endpoint)
        return
    check_listener(choices, loopback=leads_to_loopback(url))
    if not session.connection.key_for(url, session.dependencies.environ):
        raise UsageError(
            f"there is no API key for {url}; give api_key=, or set it in the environment: export"
            " ORCHESTRATOR_API_KEY=..."
        )


async def name_for(ledger: Ledger, inputs: Inputs, endpoint: str | Function | None) -> str:
    """A name for a run that was given none: that of the file, or else a new one, of the endpoint and the time."""
    if (source := source_of(inputs)) != STANDARD_INPUT:
        return Path(location_of(source).name).stem
    of = endpoint if isinstance(endpoint, str) else getattr(endpoint, "__name__", "run")
    at = datetime.fromtimestamp(ledger.now() // SECOND_US, UTC)
    base = f"{of.rpartition(':')[2].rpartition('/')[2]}-{at:%Y%m%d-%H%M%S}"
    taken = {run.name for run in await ledger.runs.all()}
    return next(name for n in range(1, len(taken) + 2) if (name := base if n == 1 else f"{base}-{n}") not in taken)
