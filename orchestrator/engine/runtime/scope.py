"""What one engine works on, beside others on the same ledger."""

from collections.abc import Awaitable, Callable, Collection, Iterable


class Scope:
    """The endpoints at which one engine works, and so the runs that are its: those that are at one of them. No other
    engine has any of them. The *keeper* also does what is of no run: schedules, flows, messages, pruning.

    `endpoints`: their numbers in the ledger, or None for all, those included that are still to come. `join` is called
    before an endpoint becomes one of them because a run comes to have it, too; it raises `UsageError` where it cannot.
    """

    def __init__(
        self,
        endpoints: Iterable[int] | None,
        *,
        is_keeper: bool,
        is_successor: bool = False,
        join: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        self._endpoints = None if endpoints is None else set(endpoints)
        self._join = join
        self.is_keeper = is_keeper
        self.is_successor = is_successor
        """Whether who was there before did not let go: requests of that one may still be on their way."""

    @classmethod
    def everything(cls, *, is_successor: bool = False) -> "Scope":
        """That of an engine which is the only one."""
        return cls(None, is_keeper=True, is_successor=is_successor)

    @property
    def is_everything(self) -> bool:
        """Whether it is all that there is."""
        return self._endpoints is None

    @property
    def endpoints(self) -> Collection[int] | None:
        """Those that there are so far; None where it is everything."""
        return self._endpoints

    def has(self, endpoint: int) -> bool:
        """Whether the endpoint of that number is among them."""
        return self._endpoints is None or endpoint in self._endpoints

    def add(self, endpoints: Iterable[int]) -> None:
        """These are among them, too, from now on."""
        if self._endpoints is not None:
            self._endpoints.update(endpoints)

    async def take_in(self, endpoint: int) -> None:
        """Sees that an endpoint is among them where a run of theirs has it from now on. Raises `UsageError`."""
        if not self.has(endpoint):
            if self._join is not None:
                await self._join(endpoint)
            self.add([endpoint])
