"""The actions of a ledger: what people have asked by pages, commands and programs, and what came of it."""

from typing import Any

from sqlalchemy import or_, update

from orchestrator.core.text.wording import folded
from orchestrator.ledger.actions.action_rows import ACTIONS, Act, ActionRow, Ended, SubjectKind, action_add
from orchestrator.ledger.actions.asker import Asker
from orchestrator.ledger.expressions import contains
from orchestrator.ledger.schema.action_tables import actions
from orchestrator.ledger.transactions.repository import Repository, shared
from orchestrator.ledger.transactions.transaction import Transaction


class Actions(Repository):
    """The actions of a ledger."""

    async def one(self, number: int) -> ActionRow | None:
        """The action of that number, or None."""
        return await self._access.first(ActionRow, ACTIONS.where(actions.c.id == number))

    async def of_form(self, form: str) -> ActionRow | None:
        """What the form of that id has asked for; None where it has not acted."""
        return await self._access.first(ActionRow, ACTIONS.where(actions.c.form == form))

    async def page(self, *, before: int | None = None, most: int, by: str = "", what: str = "") -> list[ActionRow]:
        """The latest ones, newest first: those that were asked before the one numbered `before`, by somebody
        whose name, or by a way that, has `by` in it, and whose verb or subject has `what`, in capital letters or small.
        """
        query = ACTIONS.order_by(actions.c.id.desc()).limit(most)
        if before is not None:
            query = query.where(actions.c.id < before)
        if by:
            query = query.where(or_(*(contains(each, folded(by)) for each in (actions.c.asked_by, actions.c.way))))
        if what:
            subject = (actions.c.verb, actions.c.kind, actions.c.subject)
            query = query.where(or_(*(contains(each, folded(what)) for each in subject)))
        return await self._access.structs(ActionRow, query)

    async def about(self, kind: SubjectKind, number: int, most: int) -> list[ActionRow]:
        """The latest ones that concern one run, flow ..., newest first."""
        query = ACTIONS.where(actions.c.kind == kind.value, actions.c.subject_id == number)
        return await self._access.structs(ActionRow, query.order_by(actions.c.id.desc()).limit(most))

    @shared
    async def note(
        self,
        transaction: Transaction,
        asked: Asker | None,
        act: Act,
        ended: Ended | None,
    ) -> int | None:
        """What was asked and came to nothing, as a refusal; or, where it has not `ended`, that something is begun that
        is more than one transaction: `settle` says what came of it. Raises `AskedBefore`.
        """
        return await action_add(transaction.connection, asked, act, now=self._access.now(), ended=ended)

    async def settle(self, number: int, ended: Ended) -> None:
        """What came of one that was begun, unless that is known."""
        values: dict[str, Any] = {
            "outcome": ended.outcome,
            "is_refused": int(ended.is_refused),
            "done_n": ended.done,
        }
        change = update(actions).where(actions.c.id == number, actions.c.done_at.is_(None))
        await self._access.shared.execute(change.values(done_at=self._access.now(), **values))
