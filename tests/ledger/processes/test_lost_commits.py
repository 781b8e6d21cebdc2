"""A server that has lost what it had confirmed, by whomever that is found: nobody owns anything until somebody accepts it."""

import anyio
import pytest

from orchestrator.errors import LostCommitsError
from orchestrator.ledger.postgres.identity.lost_commits import accept_loss, is_loss_noted
from orchestrator.ledger.processes.processes import Processes
from tests.ledger.processes.conftest import FIRST, SECOND, THIRD
from tests.ledger.processes.place import NEXT, OWNER, Place
from tests.postgres.owners import joins, owner_of, takes

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]

LAGGED = "UPDATE processes SET beat = beat - 2"


async def test_once_it_is_noted_all_are_dead_and_nobody_joins_before_it_is_accepted(place: Place) -> None:
    driver = await place.driver(OWNER)
    owner, other = await takes(driver, FIRST), await joins(driver, SECOND)

    await Processes(driver).note_loss()

    assert [await Processes(driver).beat(each) for each in (owner, other)] == [None, None]
    for _ in range(2):
        with pytest.raises(LostCommitsError):
            await Processes(driver).join(THIRD)
    assert [await accept_loss(driver) for _ in range(2)] == [True, False]
    await takes(driver, THIRD)
    assert (await owner_of(driver)).name == THIRD.name


async def test_whose_beats_were_forgotten_is_dead_for_good(place: Place) -> None:
    driver = await place.driver(OWNER)
    async with place.tenure(OWNER) as tenure:
        await anyio.sleep(5)
        assert tenure.may_leave()
        await driver.execute(LAGGED)
        await anyio.sleep(2)
        assert not tenure.may_leave()
        assert tenure.why_lost is not None
    with pytest.raises(LostCommitsError, match="has lost what it had confirmed"):
        async with place.tenure(OWNER):
            raise AssertionError("nobody may own it")


async def test_who_joined_in_what_was_lost_finds_it_of_one_that_beats_no_more(place: Place) -> None:
    driver = await place.driver(OWNER)
    number = await takes(driver, OWNER)
    for _ in range(3):
        await Processes(driver).beat(number)

    async def lag() -> None:
        await anyio.sleep(1)
        await driver.execute(f"{LAGGED} WHERE id = $1", number.id)  # its own beats would tell it

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lag)
        async with place.member(NEXT) as joined:
            with anyio.fail_after(5):
                while joined.why_lost is None:
                    await joined.look()
                    await anyio.sleep(0.25)
    with pytest.raises(LostCommitsError):
        async with place.member(NEXT):
            raise AssertionError("nobody may own anything")
    assert await is_loss_noted(driver)
