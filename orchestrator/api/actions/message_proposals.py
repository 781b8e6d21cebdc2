"""What is asked of messages: to be sent again, one, or all of which somebody could not be told."""

from orchestrator.api.actions.proposal import GoneError, Proposal, ProposalRequest, typed_command
from orchestrator.api.messages.message_resend import message_meant, resend_message
from orchestrator.api.pages.page_paths import ALL_MESSAGES
from orchestrator.core.text.wording import counted
from orchestrator.ledger.actions.action_rows import Act, SubjectKind, Verb


async def send_again(request: ProposalRequest) -> Proposal:
    """A message is sent again under its own id, be it taken or given up; or all that did not reach anybody."""
    if request.key == ALL_MESSAGES:
        return await _all(request)
    found = await message_meant(request.ledger, request.key)
    if found is None:
        raise GoneError(f"There is no message {request.key[:40]}.")
    return Proposal(
        act=Act(verb=Verb.SEND_AGAIN, subject=SubjectKind.MESSAGE, number=found, name=request.key),
        do=lambda given: resend_message(request.path, request.key, given),
        title=f"Send message {request.key} again?",
        button="Send it again",
        command=typed_command(request.path, "notify", "resend", request.key),
        says=(f"{counted(1, 'message')} goes to the same receiver once more, under the same id.",),
        when=_when(request, "it is sent"),
    )


async def _all(request: ProposalRequest) -> Proposal:
    outbox, of_runs = request.ledger.flows.outbox, request.ledger.flows.run_outbox
    number = await outbox.count_unreached() + await of_runs.count_unreached()
    return Proposal(
        act=Act(verb=Verb.SEND_AGAIN, subject=SubjectKind.MESSAGE, name="those that did not reach anybody"),
        do=lambda given: resend_message(request.path, None, given),
        title=f"Send {counted(number, 'message')} again?",
        button="Send them again",
        command=typed_command(request.path, "notify", "resend"),
        says=(f"{counted(number, 'message')} did not reach anybody. Each goes under its own id.",),
        when=_when(request, "they are sent"),
        count=number,
        of="messages",
        may_shrink=True,
        problem="" if number else "There is no message that did not reach anybody.",
    )


def _when(request: ProposalRequest, what: str) -> str:
    return "" if request.holder else f"Nobody works on this ledger: {what} by the next process that does."
