"""Which submissions may have left, of a ledger on which several processes work: each marks in a file of its own.

A submission's number tells the slot of the process that claimed it. The marks made in that slot decide about it,
whoever asks: in all others it is missing, and would count as never sent. So there is a file for each slot,
`LEDGER.sent-SLOT`, and the ledger has noted for each which one was made last, by whichever machine. Those of another
slot are believed as `sent_marks.py` says, by what the ledger has noted when it is asked, not before: a process that has
had the slot since, on another machine, has noted another number before it claimed anything.

Each process makes a file of its own, and puts into it what the one before has marked there: that one may be frozen, and
mark once more when it goes on, in the file that was its own. It cannot send then (`client.http.bodies.leave_marked`).
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from orchestrator.ledger.jobs.claims import slot_of
from orchestrator.ledger.sites.sent_marks import Marks, Seal, new_number, not_kept
from orchestrator.settings.addresses.companions import Companion, companion_of, companion_to_write
from orchestrator.settings.addresses.ledger_address import LedgerUrl

UNTOLD: Final = (
    "its server keeps from this role which one it is (pg_control_system, pg_current_wal_lsn), so what has left is not"
    " marked"
)

Latest = Callable[[], Awaitable[int]]
"""Asks for the ledger's latest submission."""


class SlotsHome(Protocol):
    """What the marks of a ledger need of the server on which that is."""

    async def identity(self) -> tuple[int, int] | None:
        """What tells it from every other one, and from a copy; None where its server does not say."""

    async def mark_numbers(self) -> Mapping[int, int]:
        """By slots, the numbers that were noted for the files made last; 0: for none."""

    async def set_mark_number(self, slot: int, number: int) -> None:
        """Notes another one."""


class SlotFiles:
    """The files of marks on this machine, in this `boot` of it, for the ledger at `ledger`. `latest` asks for its
    latest submission.
    """

    def __init__(self, ledger: LedgerUrl, home: SlotsHome, boot: str | None, latest: Latest) -> None:
        self._ledger = ledger
        self._home = home
        self._boot = boot
        self._latest = latest

    async def own_of(self, slot: int) -> tuple[Marks, str | None]:
        """New marks for the process in `slot`, which go on from those that were made there before, where these are to
        be believed; and why they are not kept, if so.

        The ledger notes the number of the file before anything is claimed; 0 where there is none.
        """
        which, floor = await self._home.identity(), await self._latest()
        number, unkept = 0, None
        marks = Marks.unkept(floor=floor)
        if which is None:
            unkept = f"{self._ledger}: {UNTOLD}"
        elif self._boot is not None:
            before, path = (await self.believed([slot])).get(slot), self._file_of(slot)
            try:
                number = new_number()
                path = companion_to_write(self._ledger, _companion(slot))
                marks = Marks.made(path, Seal(self._boot, *which, number), floor=floor, before=before)
            except OSError as error:
                number, unkept = 0, not_kept(path, error)
        await self._home.set_mark_number(slot, number)
        return marks, unkept

    async def believed(self, slots: Iterable[int]) -> Mapping[int, Marks]:
        """The marks of those `slots` whose files are to be believed now."""
        seen = {slot: marks for slot in slots if (marks := Marks.read(self._file_of(slot))) is not None}
        which = await self._home.identity() if seen else None
        if which is None or self._boot is None:
            return {}
        # Asked once the marks were read: what they speak of is in the ledger, and who has made another file since has
        # noted that.
        numbers, latest = await self._home.mark_numbers(), await self._latest()
        seals = {slot: Seal(self._boot, *which, numbers.get(slot, 0)) for slot in seen}
        return {slot: marks for slot, marks in seen.items() if marks.is_believed(seals[slot], latest=latest)}

    def _file_of(self, slot: int) -> Path:
        return companion_of(self._ledger, _companion(slot))


class SlotMarks:
    """Those of the process in `slot`, and in these `files` those of others."""

    def __init__(self, own: Marks, unkept: str | None, *, slot: int, files: SlotFiles) -> None:
        self.own = own
        self.unkept = unkept
        self._slot = slot
        self._files = files

    async def never_left(self, submissions: Iterable[int]) -> frozenset[int]:
        """Those of `submissions` that provably never left, each by the marks of its slot."""
        in_slots = defaultdict[int, list[int]](list)
        for each in submissions:
            in_slots[slot_of(each)].append(each)
        known = self.own.never_left(in_slots.pop(self._slot, ()))
        others = await self._files.believed(in_slots)
        return known.union(*(marks.never_left(in_slots[slot]) for slot, marks in others.items()))


def _companion(slot: int) -> str:
    return f"{Companion.SENT_MARKS}-{slot}"
