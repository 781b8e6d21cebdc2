"""People who are told of a run, and lie: what they must have heard all the same, and that a world in which they have not
is found out.
"""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.simulation.books import read_books
from tests.simulation.checks import violated, violations
from tests.simulation.facts import Facts
from tests.simulation.message_checks import who_wants_a_rest_has_it
from tests.simulation.plan import Lie
from tests.simulation.play import Play
from tests.simulation.scenarios import told
from tests.simulation.tampering import put_back, tamper

pytestmark = pytest.mark.slow

AGAIN: Final = """INSERT INTO run_outbox (run_id, news, body, owed_at, due_at, target)
SELECT run_id, news, body, owed_at, due_at, target FROM run_outbox"""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """One in which every lie was told."""
    return Play(told(4), tmp_path_factory.mktemp("told"), traced=False).play()


@pytest.fixture
def spoilt(world: Facts) -> Iterator[Facts]:
    """The same, to be tampered with."""
    heard, lives = list(world.heard), list(world.lives)
    with put_back(world.ledger):
        yield world
    world.heard, world.lives[:] = heard, lives


def test_each_has_heard_all_once_whatever_they_did_with_it_before(world: Facts) -> None:
    assert violations(world) == []
    assert {each.lie for each in world.heard} == {*Lie, None}


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (
            "UPDATE run_outbox SET told_at = NULL WHERE id = (SELECT min(id) FROM run_outbox)",
            "every_message_that_is_owed_arrives",
        ),
        (
            "UPDATE run_outbox SET owed_at = owed_at + 1 WHERE id = (SELECT min(id) FROM run_outbox)",
            "every_message_that_is_owed_arrives",
        ),
        ("DELETE FROM run_outbox WHERE id = (SELECT min(id) FROM run_outbox)", "every_message_that_is_owed_arrives"),
        (AGAIN, "an_episode_is_one_message"),
    ],
)
def test_a_message_that_is_owed_and_not_told_or_told_and_not_owed_is_found_out(
    spoilt: Facts, change: str, check: str
) -> None:
    tamper(spoilt.ledger, change)
    assert check in violated(spoilt)


def test_a_message_that_is_taken_twice_though_nobody_had_died_is_found_out(spoilt: Facts) -> None:
    taken = next(each for each in spoilt.heard if each.lie is None)
    spoilt.heard = [*spoilt.heard, taken._replace(at=taken.at + 1)]
    assert violated(spoilt) == {"no_message_is_taken_twice"}
    spoilt.lives.append((0, taken.at + 1))
    assert violated(spoilt) == set()
    spoilt.heard = [*spoilt.heard, taken._replace(at=taken.at + 1, body=b"another")]
    assert violated(spoilt) == {"no_message_is_taken_twice"}


def test_a_rest_that_is_not_had_is_found_out(spoilt: Facts) -> None:
    busy = next(each for each in spoilt.heard if each.lie is Lie.BUSY)
    spoilt.heard = [*spoilt.heard, busy._replace(at=busy.at - 1, wait_s=5.0), busy._replace(at=busy.at + 4_000_000)]
    assert list(who_wants_a_rest_has_it(spoilt, read_books(spoilt.ledger)))
