"""What an engine works on grows only by what has become its."""

import pytest

from orchestrator.engine.runtime.scope import Scope
from orchestrator.errors import UsageError

pytestmark = pytest.mark.anyio


async def test_an_endpoint_is_in_it_once_it_was_joined_and_not_where_it_cannot_be() -> None:
    joined: list[int] = []

    async def join(endpoint: int) -> None:
        if endpoint == 3:
            raise UsageError("another process has it")
        joined.append(endpoint)

    scope = Scope([1], is_keeper=False, join=join)
    for endpoint in (1, 2, 2):
        await scope.take_in(endpoint)
    with pytest.raises(UsageError, match="another process has it"):
        await scope.take_in(3)
    assert (joined, scope.endpoints) == ([2], {1, 2})


async def test_everything_has_every_endpoint() -> None:
    scope = Scope.everything()
    await scope.take_in(7)
    scope.add([8])
    assert (scope.has(9), scope.endpoints) == (True, None)
