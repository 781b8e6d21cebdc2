"""Somebody who asks something of a run, as the command line does, in a process of its own."""

from orchestrator.api.admin.limits import limits_reset, limits_set
from orchestrator.api.runs.process_commands import control, prioritize, retry
from orchestrator.core.limits.rate_pacer import Limit, Operation
from orchestrator.errors import StorageError, UsageError
from orchestrator.settings.command_requests import ControlAction, RetryChoice
from tests.simulation.facts import Asked, Facts
from tests.simulation.plan import OTHER_ENDPOINTS, Asking, Word
from tests.simulation.process import Process

WISHES = {Word.PAUSE: ControlAction.PAUSE, Word.CONTINUE: ControlAction.CONTINUE, Word.CANCEL: ControlAction.CANCEL}


class Asker:
    """Asks what the plan says. `has_come_back` once the command was taken, or refused."""

    def __init__(self, facts: Facts, asking: Asking) -> None:
        self._facts = facts
        self._asking = asking
        self.has_come_back = False

    async def ask(self, process: Process) -> None:
        """Asks once, and notes what was said."""
        asking, facts = self._asking, self._facts
        name = facts.runs[asking.run].plan.name
        outcome, refused = None, False
        facts.tries[asking.word] += 1
        try:
            outcome = await self._ask(name, process)
        except UsageError as error:
            outcome, refused = str(error), True
        except StorageError as error:
            facts.said.append(str(error))
            return
        self.has_come_back = True
        facts.trace.say("person", f"{asking.word} {name}: {'refused' if refused else outcome}")
        facts.asked.append(Asked(asking.word, asking.run, facts.true.now(), outcome, refused=refused))

    def _chosen(self) -> RetryChoice | None:
        where = self._facts.runs[self._asking.run].plan.where
        return RetryChoice(endpoint=OTHER_ENDPOINTS[where]) if self._asking.elsewhere else None

    async def _ask(self, name: str, process: Process) -> str | None:
        ledger, given, asking = self._facts.address, process.dependencies(), self._asking
        match asking.word:
            case Word.PAUSE | Word.CONTINUE | Word.CANCEL:
                return (await control(ledger, name, WISHES[asking.word], given)).outcome
            case Word.RETRY:
                return (await retry(ledger, name, given, chosen=self._chosen())).outcome
            case Word.PRIORITY:
                return (await prioritize(ledger, name, asking.number, given)).outcome
            case Word.LIMITS_SET:
                rate = self._facts.plan.run_rate
                chosen = {Operation.RUN: Limit(asking.number, rate.window_s, rate.concurrent)}
                return (await limits_set(ledger, name, chosen, given)).outcome
            case Word.LIMITS_RESET:
                return (await limits_reset(ledger, name, (Operation.RUN,), given)).outcome
