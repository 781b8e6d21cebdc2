"""The engine of one shard of a ledger that several processes share: from its beginning until it has ended in order."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import anyio

from orchestrator.core.ownership.service_reach import EndpointReach, ShardReach, shard_reach
from orchestrator.engine.engine import Engine, engine_in
from orchestrator.engine.process.engine_process import EngineProcess
from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import DeposedError, leading


@dataclass(kw_only=True, eq=False)
class ShardEngine:
    """One for the `scope` that is the shard of that number, in a `process` that has others. `begin` begins what it does
    inside of `working`.
    """

    shard: int
    process: EngineProcess
    scope: Scope
    begin: Callable[[Engine], Awaitable[None]]
    engine: Engine | None = field(init=False, default=None)
    has_ended: bool = field(init=False, default=False)
    """Whether nothing of it goes on any more, and nothing is under way."""

    _is_to_end: bool = field(init=False, default=False)
    _is_succeeded: bool = field(init=False, default=False)

    async def serve(self) -> None:
        """Works until `end`, or until the process has lost the ledger."""
        try:
            async with engine_in(self.process, self.scope) as engine:
                self.engine = engine
                if self._is_to_end:
                    engine.stop(is_succeeded=self._is_succeeded)
                await engine.runs.learn_settings()
                async with engine.working():
                    await self.begin(engine)
                    await anyio.sleep_forever()
        except (DeposedError, BaseExceptionGroup) as error:
            if not isinstance(leading(error), DeposedError):
                raise
        self.has_ended = True

    def end(self, *, is_succeeded: bool = True) -> None:
        """Has it end, once requests in flight have, or a while is over. Unless another one is to go on with the shard,
        its pods end with it.
        """
        self._is_to_end, self._is_succeeded = True, is_succeeded
        if self.engine is not None:
            self.engine.stop(is_succeeded=is_succeeded)

    @property
    def is_busy(self) -> bool:
        """Whether it does something of which the ledger does not tell that it is still to be done."""
        return self.engine is not None and any(each.is_saving for each in self.engine.runs.sessions.values())

    def reach(self) -> ShardReach:
        """Whether it gets answers from its endpoints."""
        endpoints = () if self.engine is None else self.engine.endpoints.endpoints.values()
        now = self.process.ledger.now()
        return shard_reach(
            [
                EndpointReach(each.health.connectivity.answered_at, each.health.connectivity.unreachable_us(now))
                for each in endpoints
            ],
            now,
        )
