"""A form that acts: what it would do is shown first, and it does that once, for as many as were confirmed.

Without `confirmed` a form is answered by a page that says what would be done, to how many, and what that may cost. That
page's form has an id of its own, and carries the count. With another count by then, it asks again. What the form did is
found by its id in the ledger, so that a second click, another tab or another process acts no second time.
"""

import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import msgspec

from orchestrator.api.actions.proposal import GoneError, Proposal, ProposalRequest
from orchestrator.api.flows.flows import looking_at
from orchestrator.api.runs.process_commands import beside
from orchestrator.dashboard.page import FormAnswer, FormRequest, FormRoute, NotFoundError
from orchestrator.dashboard.rendering.template_filters import shown_text
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import LedgerVersionError, StorageError, UsageError, message_of
from orchestrator.ledger import Ledger
from orchestrator.ledger.actions.action_rows import AskedBefore, Ended
from orchestrator.ledger.actions.asker import ActionWay, Asker
from orchestrator.views.actions import Confirmation

TEMPLATE: Final = "confirmation.html"

CONFIRMED: Final = "confirmed"
FORM: Final = "form"
COUNT: Final = "count"
SCOPE: Final = "scope"
TYPED: Final = "typed"
BACK: Final = "back"

CONFLICT: Final = 409
REFUSED: Final = 422

FORM_BYTES: Final = 18
_FORM_ID: Final = re.compile(r"[A-Za-z0-9_-]{16,64}")
_OUR_PATH: Final = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]{0,1000}")

Propose = Callable[[ProposalRequest], Awaitable[Proposal]]


@dataclass(frozen=True, kw_only=True)
class ConfirmedForm:
    """One action at one path."""

    path: str
    proposal: Propose
    subject: str
    """The name of the number in the path."""

    heading: str

    @property
    def route(self) -> FormRoute:
        """What is mounted."""
        return FormRoute(path=self.path, answer=self.answer, heading=self.heading)

    async def answer(self, request: FormRequest) -> FormAnswer:
        """The page that asks for confirmation, or, once that is given, where it was asked from."""
        fields = request.fields
        form = fields.get(FORM, "") if _FORM_ID.fullmatch(fields.get(FORM, "")) else ""
        async with looking_at(request.ledger.address, request.dependencies) as opened:
            if form and (known := await opened.actions.of_form(form)) is not None:
                return self._back(request, known.id)
            proposal = await self._proposed(request, opened)
        if CONFIRMED not in fields or not proposal.is_ready:
            return self._page(request, proposal, proposal.problem)
        if problem := proposal.problem or _objection(proposal, fields, form):
            return self._page(request, proposal, problem, CONFLICT)
        return await self._do(request, proposal, form)

    async def _proposed(self, request: FormRequest, opened: Ledger) -> Proposal:
        asked = ProposalRequest(
            ledger=opened,
            now=request.now,
            holder=request.holder,
            number=request.numbers[self.subject] if f"{{{self.subject}:number}}" in self.path else 0,
            shows=request.shows,
            key=str(request.numbers[self.subject]),
            fields=request.fields,
        )
        try:
            return await self.proposal(asked)
        except GoneError as error:
            raise NotFoundError(error.message) from None

    async def _do(self, request: FormRequest, proposal: Proposal, form: str) -> FormAnswer:
        asked = Asker(way=ActionWay.PAGE, by=request.person, form=form, where=proposal.act.where, count=proposal.count)
        given = msgspec.structs.replace(request.dependencies, asked=asked)
        try:
            await proposal.do(given)
        except AskedBefore as error:
            return self._back(request, error.action)
        except (StorageError, LedgerVersionError):
            raise
        except UsageError as error:
            await _refused(request, given, proposal, message_of(error))
        async with looking_at(request.ledger.address, request.dependencies) as opened:
            known = await opened.actions.of_form(form)
        return self._back(request, None if known is None else known.id)

    def _page(self, request: FormRequest, proposal: Proposal, problem: str, status: int = 200) -> FormAnswer:
        given = {field.name for field in proposal.inputs}
        view = Confirmation(
            title=proposal.title,
            says=tuple(proposal.says),
            paid=proposal.paid,
            when=proposal.when,
            count=proposal.count,
            of=_of(proposal.of, proposal.count),
            sample=tuple(proposal.sample),
            command=proposal.command,
            typed=proposal.typed,
            inputs=tuple(proposal.inputs),
            hidden={name: value for name, value in proposal.hidden.items() if name not in given and value}
            | {SCOPE: proposal.scope},
            button=proposal.button,
            is_ready=proposal.is_ready,
            problem=problem,
            path=_filled(self.path, request.numbers),
            back=self._from(request),
            form=secrets.token_urlsafe(FORM_BYTES),
        )
        return FormAnswer(template=TEMPLATE, view=view, status=status)

    def _from(self, request: FormRequest) -> str:
        """Where it was asked from: a path of ours, or that of what it is about."""
        back = request.fields.get(BACK, "")
        if _OUR_PATH.fullmatch(back):
            return back
        return _filled(self.path, request.numbers).rpartition("/")[0]

    def _back(self, request: FormRequest, action: int | None) -> FormAnswer:
        back = re.sub(r"(?<=[?&])did=[0-9]*&?", "", self._from(request)).rstrip("?&")
        if action is None:
            return FormAnswer(redirect=back)
        return FormAnswer(redirect=f"{back}{'&' if '?' in back else '?'}did={action}")


def _objection(proposal: Proposal, fields: Mapping[str, str], form: str) -> str:
    """Why what was confirmed is not what would be done; empty where it is."""
    if not form:
        return "This form has no id: look at what it does, and confirm it here."
    if fields.get(SCOPE, "") != proposal.scope:
        return "It was another thing that was confirmed: look at this, and confirm it."
    given = fields.get(COUNT, "")
    counted = int(given) if given.isascii() and given.isdigit() and len(given) < 16 else None  # noqa: PLR2004
    if proposal.count != counted and not (
        proposal.may_shrink and proposal.count is not None and counted is not None and proposal.count < counted
    ):
        was = "none" if counted is None else f"{counted:,}"
        of = _of(proposal.of, proposal.count)
        now = "none" if proposal.count is None else f"{proposal.count:,}"
        return f"It concerns {now} {of} by now, and {was} were confirmed: look, and confirm it again."
    if proposal.typed is not None and fields.get(TYPED, "").strip() not in (proposal.typed, shown_text(proposal.typed)):
        return f"Type {proposal.typed} to confirm it."
    return ""


async def _refused(request: FormRequest, given: Dependencies, proposal: Proposal, why: str) -> None:
    """Writes that it was refused, unless whoever refused it has."""
    async with beside(request.ledger.address, given) as opened:
        try:
            await opened.actions.note(given.asked, proposal.act, Ended(why, is_refused=True))
        except AskedBefore:
            return


def _of(plural: str, count: int | None) -> str:
    """What is counted, as it is called where there is one, or so many."""
    return re.sub(r"^(job|row|flow)s\b", r"\1", plural) if count == 1 else plural


def _filled(path: str, numbers: Mapping[str, int]) -> str:
    return re.sub(r"\{(\w+)(?::number)?\}", lambda found: quote(str(numbers[found[1]]), safe=""), path)
