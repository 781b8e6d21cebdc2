"""Which run a request means: a new one, a known one, or, by mistake, another one of the same name."""

import shlex
from pathlib import Path
from urllib.parse import urlsplit

from orchestrator.app.files import STDIN
from orchestrator.app.local import LOCAL, absolute, is_local
from orchestrator.app.look import unknown_run
from orchestrator.errors import UsageError
from orchestrator.ledger import Ledger, reports
from orchestrator.ledger.reports import Run
from orchestrator.settings import RunRequest

LEDGER_DEFAULT = Path("orchestrator.db")


async def find_run(ledger: Ledger, request: RunRequest) -> Run:
    """The run that `request` means, made if it is new. Raises `UsageError` for a name that means another run."""
    known = await ledger.run_named(request.name)
    if request.source is None:
        if known is None:
            raise unknown_run(request.name, ledger.path, await ledger.read(reports.runs_all))
        return known
    if known is not None:
        _check(known, request, request.source)
        return known
    url, endpoint = _target(request)
    assert request.settings is not None
    return await ledger.run_create(
        name=request.name,
        service_url=url,
        endpoint=endpoint,
        source=_full_path(request.source),
        settings=request.settings,
    )


def _check(known: Run, request: RunRequest, source: str) -> None:
    advice = f"give this one another name with --name, or continue that one with: {resume_command(request)}"
    if (known.service_url, known.endpoint) != _target(request):
        at = known.endpoint if known.service_url == LOCAL else f"{known.endpoint} at {known.service_url}"
        raise UsageError(f"the run {known.name!r} of this ledger is for the endpoint {at}; {advice}")
    if not request.named and known.source != _full_path(source):
        raise UsageError(f"the run {known.name!r} of this ledger was made from {known.source}; {advice}")


def check_reach(run: Run, request: RunRequest) -> None:
    """What a `resume` can only know now that the run is known. Raises `UsageError`."""
    for path in (request.output, request.errors):
        if path is not None and run.source != STDIN and path.resolve() == Path(run.source):
            raise UsageError(f"{path}: this is the input of the run {run.name!r}; write to another file")
    if run.service_url == LOCAL:
        return
    connection = request.connection
    if not connection.api_key:
        raise UsageError("there is no API key; set it in the environment: export ORCHESTRATOR_API_KEY=...")
    if connection.listen is not None and connection.webhook_url is None and not _is_loopback(run.service_url):
        raise UsageError("--listen needs --webhook-url: under which URL does the service reach the listener?")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")


def _target(request: RunRequest) -> tuple[str, str]:
    """The service URL and the endpoint that `request` names, in the form in which the ledger keeps them."""
    assert request.endpoint is not None
    if is_local(request.endpoint):
        return LOCAL, absolute(request.endpoint)
    return request.connection.serverless_url.rstrip("/"), request.endpoint


def _full_path(source: str) -> str:
    return source if source == STDIN else str(Path(source).resolve())


def resume_command(request: RunRequest) -> str:
    """What to type to go on with the run without reading its input."""
    words = ["orchestrator", "resume", request.name]
    if request.ledger != LEDGER_DEFAULT:
        words += ["--ledger", str(request.ledger)]
    if request.output is not None:
        words += ["--output", str(request.output)]
    return shlex.join(words)
