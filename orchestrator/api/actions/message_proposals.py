"""What is asked of messages: to be sent again, one, or all of which somebody could not be told."""

import re
from typing import Final

from orchestrator.api.actions.proposal import GoneError, Proposal, ProposalRequest, typed_command
from orchestrator.api.runs.commands import beside
from orchestrator.core.text.wording import counted
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.actions.action_rows import Act, Ended, SubjectKind, Verb

_ID: Final = re.compile(r"(?P<table>[pr])(?P<number>[0-9]{1,18})")


async def send_again(request: ProposalRequest) -> Proposal:
    """A message is sent again under its own id, be it taken or given up."""
    found = _ID.fullmatch(request.key)
    if found is None:
        raise GoneError(f"There is no message {request.key[:40]}.")
    number = int(found["number"])
    act = Act(verb=Verb.SEND_AGAIN, subject=SubjectKind.MESSAGE, number=number, name=request.key)

    async def do(given: Dependencies) -> None:
        """It is begun before, and settled after: who finds it without an outcome knows that nobody knows."""
        async with beside(request.path, given) as opened:
            action = await opened.actions.note(given.asked, act, None)
            outbox = opened.flows.outbox if found["table"] == "p" else opened.flows.run_outbox
            done = await outbox.send_again(number)
            told = "it is sent by whoever works on the ledger" if done else "there is no such message any more"
            assert action is not None
            await opened.actions.settle(action, Ended(told, is_refused=not done, done=done))

    return Proposal(
        act=act,
        do=do,
        title=f"Send message {request.key} again?",
        button="Send it again",
        command=typed_command(request.path, "notify", "resend", request.key),
        says=(f"{counted(1, 'message')} goes to the same receiver once more, under the same id.",),
        when="" if request.holder else "Nobody works on this ledger: it is sent by the next process that does.",
    )
