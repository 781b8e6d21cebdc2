"""Nine worlds of the swarm, one of each other scenario that is quick, and the tools around them."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from orchestrator.units import SECOND_US
from tests.postgres.databases import Databases
from tests.simulation import __main__ as command
from tests.simulation.books import read_books
from tests.simulation.checks import CHECKS, violated, violations
from tests.simulation.facts import Facts
from tests.simulation.plan import Plan
from tests.simulation.play import Play
from tests.simulation.process import KEYS
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.seeds import played, story
from tests.simulation.tampering import put_back, tamper

API_KEY = KEYS["KEY_HERE"]
SEEDS = (0, 5, 7, 6, 3, 8, 2, 1, 4)
"""Those that take least come first. What is beyond them is played by `python -m tests.simulation`."""

BATCH = 3
"""Seeds of one slow test: enough to share a process's warm-up, few enough to be spread over processes."""

AT_ONCE = 2
"""So many worlds are played at each commit, each by a test of its own."""

LONG = {
    *("asleep", "neglected", "clocks", "refused", "mixed-faults", "wishful", "clock-jumps", "large", "direct", "urls"),
    *("told", "held", "batches", "chunks"),
}
"""Quick ones that are too long for a commit."""

QUICK = (
    *("clean", "one-fault", "mixed-faults", "commits", "clock-jumps"),
    *(
        "maintenance",
        "swapped",
        "contrary",
        "forgetful",
        "neglected",
        "refused",
        "wishful",
        "direct",
        "urls",
        "held",
        "batches",
        "chunks",
        "asleep",
        "clocks",
        "large",
        "told",
    ),
)
"""The others are played by `python -m tests.simulation --scenario NAME`."""


@pytest.mark.parametrize(
    "seeds",
    [
        *([*SEEDS[first : first + 1]] for first in range(AT_ONCE)),
        *(
            pytest.param([*SEEDS[first : first + BATCH]], marks=pytest.mark.slow)
            for first in range(AT_ONCE, len(SEEDS), BATCH)
        ),
    ],
    ids=str,
)
def test_no_world_of_the_swarm_violates_a_promise(seeds: list[int]) -> None:
    worlds = [played("swarm", seed) for seed in seeds]
    bad = [line for world in worlds if world.violations for line in world.lines()]
    assert not bad, "\n".join(bad)


@pytest.mark.parametrize(
    "scenario", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in QUICK]
)
def test_each_quick_scenario_keeps_the_promises(scenario: str) -> None:
    world = played(scenario, seed=2)
    assert not world.violations, "\n".join(world.lines())


@pytest.mark.slow
def test_a_seed_makes_the_same_world_again_and_another_seed_another() -> None:
    assert story("swarm", 3) == story("swarm", 3) != story("swarm", 7)
    plans = {str(make(seed)) for name, make in SCENARIOS.items() for seed in (0, 1)}
    assert len(plans) == 2 * len(SCENARIOS)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Facts:
    """A world in which all went well."""
    return Play(Plan(scenario="clean", seed=1, jobs=3), tmp_path_factory.mktemp("world"), traced=False).play()


@pytest.fixture
def spoilt(world: Facts) -> Iterator[Facts]:
    """The same, to be tampered with."""
    output, said = world.runs[0].output.read_bytes(), list(world.said)
    lives, told = list(world.lives), {remote_id: list(times) for remote_id, times in world.told.items()}
    with put_back(world.ledger):
        yield world
    world.lives[:] = lives
    world.told.clear()
    world.told.update(told)
    world.questions.clear()
    world.unanswered.clear()
    world.pauses.clear()
    world.runs[0].output.write_bytes(output)
    world.said[:] = said
    world.runs[0].finished, world.failure = True, None


def test_a_world_in_which_all_went_well_violates_nothing(world: Facts) -> None:
    assert violations(world) == []


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ("UPDATE outcomes SET output = '{\"n\":9}' WHERE job_id = 2", "every_job_has_one_outcome"),
        ("DELETE FROM outcomes WHERE job_id = 2", "every_job_has_one_outcome"),
        ("UPDATE jobs SET custom_id = 'job-7' WHERE id = 2", "every_job_has_one_outcome"),
        ("DELETE FROM events WHERE job_id = 1 AND event = 'claimed'", "events_replay"),
        ("DELETE FROM events WHERE job_id = 1 AND event = 'completed'", "events_replay"),
        ("UPDATE counts SET n = n + 1", "counts_agree"),
        ("INSERT INTO counts (run_id, name, n) VALUES (1, 'lost', 1)", "counts_agree"),
        ("UPDATE submissions SET remote_id = 'other' WHERE job_id = 3", "nothing_is_forgotten"),
        ("UPDATE outcomes SET trouble = 'uncertain' WHERE job_id = 2", "no_crash_costs_a_try"),
        ("UPDATE endpoints SET learned = '{\"time_scale\":60}'", "the_time_scale_is_known"),
        (f"UPDATE outcomes SET message = '{API_KEY}'", "no_secret_is_anywhere"),
    ],
)
def test_a_ledger_that_was_tampered_with_is_found_out(spoilt: Facts, change: str, check: str) -> None:
    tamper(spoilt.ledger, change)
    assert check in violated(spoilt)


def test_what_happened_outside_of_the_ledger_is_found_out_too(spoilt: Facts) -> None:
    spoilt.runs[0].finished, spoilt.failure = False, None
    spoilt.said.append(f"Authorization: Bearer {API_KEY}")
    spoilt.runs[0].output.write_text("")
    found = violated(spoilt)
    assert found == {"it_came_to_an_end", "no_secret_is_anywhere"}
    spoilt.runs[0].finished = True
    assert "every_job_has_one_outcome" in violated(spoilt)


def test_a_second_submission_that_nobody_can_explain_is_found_out(tmp_path: Path) -> None:
    facts = Play(Plan(scenario="clean", seed=2, jobs=2), tmp_path, traced=False).play()
    fate = next(iter(facts.fates.values()))
    facts.fates["another"] = fate
    facts.counts[0].completed[fate.input] += 1
    found = violated(facts)
    assert found == {"nothing_is_forgotten", "nothing_is_paid_twice", "nothing_is_executed_that_is_not_counted"}
    assert len({check.__name__ for check in CHECKS}) == len(CHECKS)
    assert read_books(facts.ledger).integrity == "ok"


def test_a_result_that_was_there_and_is_said_not_to_be_is_found_out(spoilt: Facts) -> None:
    """The first job as one that was given up and sent again."""
    (remote_id,) = (fate_id for fate_id, fate in spoilt.fates.items() if fate.input == b'{"n":1}')
    end = spoilt.fates[remote_id].ends[0]
    an_hour_later = end.at + 3600 * SECOND_US
    with closing(sqlite3.connect(spoilt.ledger)) as db, db:
        db.execute(
            "INSERT INTO events (job_id, at, event, submission_id, attempt, trouble, reason)"
            " SELECT job_id, ?, 'retried', id, 1, 'failed', 'webhook' FROM submissions WHERE remote_id = ?",
            (an_hour_later, remote_id),
        )
    spoilt.lives[0] = (spoilt.lives[0][0], an_hour_later)
    found = violated(spoilt)
    assert {"nothing_expired", "nothing_that_was_told_is_paid_again"} <= found

    # One that was asked for again and again, and withheld, is the service's; not so one that was told, or asked early.
    spoilt.told.clear()
    for late_us, is_found in ((1800 * SECOND_US, True), (3000 * SECOND_US, False)):
        spoilt.questions[remote_id] = [end.at, end.at + 1, end.at + late_us]
        assert is_found == ("nothing_expired" in violated(spoilt))
    spoilt.told[remote_id] = [end.at + 2]
    assert "nothing_expired" in violated(spoilt)

    # Who has 20 places waits for none of them where few questions come to nothing.
    window_us, places = spoilt.plan.status_rate.window_s * SECOND_US, spoilt.plan.status_rate.concurrent
    spoilt.unanswered[:] = [end.at] * 20
    assert "nothing_expired" in violated(spoilt)
    spoilt.unanswered[:] = [end.at] * round(places * 3600 * SECOND_US / window_us)
    assert "nothing_expired" not in violated(spoilt)

    # While the service wants no question they are asked for at the last moment, by whoever is there then.
    spoilt.unanswered.clear()
    spoilt.pauses[:] = [(end.at - 1, an_hour_later + 1)]
    assert "nothing_expired" in violated(spoilt)
    spoilt.lives[0] = (spoilt.lives[0][0], an_hour_later - 3 * SECOND_US)
    assert "nothing_expired" not in violated(spoilt)
    spoilt.pauses[:] = [(end.at - 1, end.at + 1)]
    assert "nothing_expired" in violated(spoilt)


def test_a_follower_may_stop_before_anybody_has_begun(spoilt: Facts) -> None:
    spoilt.stops.append((0, spoilt.runs[0]))
    assert "no_process_stops_for_a_moments_trouble" not in violated(spoilt)
    spoilt.stops.clear()


class Gone(Databases):
    """Those of a server that is gone."""

    def __init__(self) -> None:
        """There is nothing to connect to."""

    def one(self) -> Any:
        raise ConnectionRefusedError("the server is gone")


def test_a_world_that_breaks_down_is_named_and_the_others_go_on() -> None:
    broken = played("engines", 2, Gone())
    assert "ConnectionRefusedError: the server is gone" in broken.violations[0]
    assert "--scenario engines --seed 2" in broken.lines()[-1]


@pytest.mark.slow
def test_a_failing_seed_prints_the_command_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--scenario", "clean", "--seed", "2"]) == 0
    assert "1 worlds, 20 jobs" in capsys.readouterr().out
    assert command.main(["--scenario", "clean", "--seed", "2", "--trace"]) == 0
    told = capsys.readouterr().out
    assert "nothing is violated" in told
    for who, what in (
        ("world", "a process of batch begins"),
        ("wire", "POST /run: 200"),
        ("ledger", "completed (status)"),
    ):
        assert any(who in line and what in line for line in told.splitlines()), (who, what)
    world = played("clean", 2)
    assert world.lines()[-1].endswith("python -m tests.simulation --scenario clean --seed 2 --trace")
