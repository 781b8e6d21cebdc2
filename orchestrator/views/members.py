"""The members of a run's pool, as people and programs are shown them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

import msgspec

from orchestrator.core.gates.costs import DurationTotals
from orchestrator.core.lanes.via import Via
from orchestrator.core.pools.member_health import MemberState


class MemberStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What one member does of a run."""

    endpoint: str
    via: Via = Via.QUEUE
    """By which lane jobs leave for it."""

    state: MemberState | None = None
    """How it takes part; None where nobody works on the run, and for one that is no member any more."""

    why: str | None = None
    """What is wrong with it, in words, or was until it was tried again."""

    outstanding: int = 0
    """Jobs of the run that are there."""

    done: int = 0
    """Executions that have ended there with a result."""

    failed: int = 0
    """Those that have ended there without one."""

    jobs_per_s: float | None = None
    """How many jobs of the run end there in a second, of late; None where nobody works on the run."""

    execution_s: float | None = None
    """What an execution took there, in the mean; None before the first of which that was told."""

    price_per_s: float | None = None
    cost: float | None = None
    """What the executions there have cost; None without a price."""

    window_used: int | None = None
    """Submissions to it, of all runs, that count in the present window; None where nobody works on the run."""

    window_allowed: int | None = None
    throttled: int | None = None
    """Requests to it that were answered 429, since the process at work began."""

    @classmethod
    def counted(
        cls,
        endpoint: str,
        took: DurationTotals,
        *,
        via: Via,
        price: float | None,
        outstanding: int,
        batch_discount: int | None = None,
    ) -> Self:
        """One whose executions are these, and of which nobody says how it is. `price` is that of a second, which costs
        less by so many millionths in a batch.
        """
        return cls(
            endpoint=endpoint,
            via=via,
            outstanding=outstanding,
            done=took.ended - took.failed,
            failed=took.failed,
            execution_s=took.mean_s if took.timed else None,
            price_per_s=price,
            cost=None if price is None else took.cost(price, batch_discount),
        )


def members_first(names: Mapping[int, str], members: Sequence[str], is_used: Callable[[int], object]) -> Iterator[int]:
    """The numbers of the endpoints of these `names` that are `members`, in their order, and then of others that did
    something all the same.
    """
    numbers = {name: number for number, name in names.items()}
    yield from (numbers[name] for name in members if name in numbers)
    yield from (number for number, name in names.items() if name not in members and is_used(number))
