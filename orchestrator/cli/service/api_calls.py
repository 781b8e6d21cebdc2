"""What the commands of `orchestrator api` share: the way to an endpoint, what is shown of an answer, and warnings."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import msgspec

from orchestrator.cli.framework.endpoint_names import endpoint_id, is_looked_up
from orchestrator.cli.output import streams
from orchestrator.cli.service import api_output
from orchestrator.core.service.profiles import address_of
from orchestrator.core.text.wording import counted
from orchestrator.errors import OrchestratorError
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.ledger_address import LedgerAddress, may_exist
from orchestrator.settings.sources import Choices
from orchestrator.views.status import RunStatus

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for aiohttp
    from orchestrator.client import EndpointJobs, JobRecord

JOB_FAILED_EXIT_CODE: Final = 1

WITHIN: Final = "sending within 5 % of the endpoint's limits; the rest is for the batch that is running"


class Shown(msgspec.Struct, frozen=True):
    """What of an answer is shown, and whether anything is said beside it."""

    as_json: bool
    quiet: bool

    def say(self, line: str) -> None:
        """One line for a person, unless nobody wants any."""
        if not self.quiet:
            streams.say(line)


async def reach(endpoint: str, account: "Account", choices: Choices) -> tuple["EndpointJobs", Shown]:
    """The jobs of the endpoint with that id or name, and how answers are shown. Within which limits is said once, when
    something is really sent, and where a process works on the ledger, whose limits they are, too.
    """
    its_id = await endpoint_id(endpoint, account) if is_looked_up(endpoint, choices) else endpoint
    jobs, as_json = account.service.endpoint(its_id), choices.is_on(command_flags.JSON)
    shown = Shown(as_json, quiet=as_json or choices.is_on(command_flags.QUIET))
    ledger = choices.ledger

    async def say_within() -> None:
        jobs.on_request(None)
        if may_exist(ledger) and await _worked_on_by(ledger):
            shown.say(WITHIN)

    jobs.on_request(say_within)
    return jobs, shown


async def _worked_on_by(ledger: LedgerAddress) -> str | None:
    from orchestrator.api.inspect.status import worked_on_by

    try:
        return await worked_on_by(ledger)
    except OrchestratorError:  # who asks the service by hand can do without
        return None


@contextmanager
def telling_if_interrupted() -> Iterator[None]:
    """Warns where the block is interrupted, which submits a job."""
    from anyio import get_cancelled_exc_class

    try:
        yield
    except get_cancelled_exc_class():
        streams.warn("interrupted before the job's id came; the job may exist all the same, and be paid for")
        raise


def show_job(record: "JobRecord", shown: Shown) -> int:
    """Prints a job; returns the exit code: 1 where it has not completed and never will."""
    if shown.as_json:
        api_output.put_answer(record.raw)
    else:
        api_output.put_job(record)
    return JOB_FAILED_EXIT_CODE if record.finished and record.status != "COMPLETED" else 0


async def stakes(ledger: LedgerAddress, endpoint: "EndpointJobs") -> list[str]:
    """What purging would do to the runs of the ledger."""
    from orchestrator.api.inspect.status import status

    try:
        runs = await status(ledger)
    except OrchestratorError as error:
        return [f"whether {ledger} has jobs there could not be seen: {error}"]
    affected = [run for run in runs if _url_of(run) == endpoint.api.url]
    return [_stake(run, ledger, at_service) for run in affected if (at_service := _at_service(run))]


def _url_of(run: RunStatus) -> str:
    return f"{address_of(run.service_url).rstrip('/')}/v2/{run.endpoint}"


def _at_service(run: RunStatus) -> int:
    return sum(run.jobs.get(state, 0) for state in ("submitting", "uncertain", "outstanding"))


def _stake(run: RunStatus, ledger: LedgerAddress, at_service: int) -> str:
    jobs = counted(at_service, "job")
    return f"run {run.run} of {ledger} has {jobs} at this endpoint; those that still wait in its queue go, too"
