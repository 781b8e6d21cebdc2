"""Processes that own a ledger on a server, or take it over, in tests of what follows from that."""

from typing import Any

from orchestrator.core.ownership.shard_bids import KEEPERS
from orchestrator.ledger.postgres.connection import LineBounds
from orchestrator.ledger.processes.leases import Leases
from orchestrator.ledger.processes.processes import Process, Processes, ProcessName, ProcessNumber
from tests.postgres.ledgers import waited_for


async def takes(driver: Any, process: ProcessName) -> ProcessNumber:
    """`process` takes all that nobody has; the keeper's shard is among it. It does not beat."""
    number = await joins(driver, process)
    leases = Leases(driver)
    taken = await leases.take(number, [lease.shard for lease in (await leases.sighting()).leases])
    assert KEEPERS in {each.shard for each in taken}
    return number


async def joins(driver: Any, process: ProcessName) -> ProcessNumber:
    """`process` has a number."""
    number = await Processes(driver).join(process)
    assert number is not None
    return number


async def takes_over(driver: Any, process: ProcessName) -> ProcessNumber:
    """`process` takes the place of whoever has the ledger, as if that had been silent."""
    while not await Processes(driver).declare_dead(await owner_of(driver)):
        pass  # it has beaten meanwhile
    return await takes(driver, process)


async def taken_over(url: str, process: ProcessName) -> None:
    """The ledger at that URL has another owner, which is gone."""
    driver = await waited_for(url)({}, LineBounds())
    await takes_over(driver, process)
    driver.terminate()


async def declares_dead(driver: Any) -> None:
    """The only process that is there is declared dead, though it lives."""
    [process] = await present(driver)
    while not await Processes(driver).declare_dead(process):
        [process] = await present(driver)  # it has beaten meanwhile


async def present(driver: Any) -> list[Process]:
    """Those that were not declared dead."""
    return list((await Leases(driver).sighting()).processes.values())


async def owner_of(driver: Any) -> Process:
    """The process that has the keeper's shard."""
    seen = await Leases(driver).sighting()
    [owner] = [lease.owner for lease in seen.leases if lease.shard == KEEPERS]
    assert owner is not None
    return seen.processes[owner]
