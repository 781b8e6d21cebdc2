"""Which job the service calls what."""

from orchestrator.core.service.remote_ids import RemoteIds


def test_an_id_stays_with_the_job_that_had_it_first() -> None:
    ids = RemoteIds()

    assert ids.owner("r-1") is None
    assert ids.give("r-1", 1)
    assert ids.give("r-1", 1), "a later submission of the same job, whose result it would be all the same"
    assert not ids.give("r-1", 2)
    assert ids.give("r-2", 2)
    assert (ids.owner("r-1"), ids.owner("r-2")) == (1, 2)


def test_once_an_id_was_given_twice_that_is_remembered_and_an_id_may_be_moved_to_the_job_that_proves_to_have_it() -> (
    None
):
    ids = RemoteIds()
    assert ids.give("r-1", 1)
    assert ids.give("r-1", 1)
    before = ids.are_repeated
    assert not ids.give("r-1", 2)
    assert (before, ids.are_repeated) == (False, True)

    for _ in range(2):
        ids.move("r-1", 2)
        assert ids.owner("r-1") == 2


def test_the_latest_ids_are_remembered_and_those_of_long_ago_forgotten() -> None:
    ids = RemoteIds(kept_max=10)
    for job in range(35):
        assert ids.give(f"r-{job}", job)

    assert all(ids.owner(f"r-{job}") == job for job in range(25, 35))
    assert all(ids.owner(f"r-{job}") is None for job in range(10))


def test_a_webhook_with_the_id_of_another_job_or_with_another_id_than_its_own_contradicts() -> None:
    ids = RemoteIds()
    assert ids.give("r-1", 1)

    assert not ids.contradict("r-1", 1, "r-1")
    assert not ids.contradict("r-2", 2, None), "nobody has it"
    assert ids.contradict("r-2", 1, "r-1")
    assert not ids.is_doubted("r-1")
    assert ids.contradict("r-1", 2, None)
    assert ids.is_doubted("r-1")


def test_a_doubted_id_whose_job_is_told_of_one_that_nobody_has_was_given_twice() -> None:
    ids = RemoteIds()
    assert ids.give("r-1", 5)
    assert ids.give("r-2", 2)
    assert ids.contradict("r-1", 1, None), "the answer to this job's /run was lost"

    assert ids.contradict("r-2", 5, "r-1"), "the record of another job"
    before = ids.are_repeated
    assert not ids.contradict("r-5", 5, "r-1")
    assert (before, ids.are_repeated) == (False, True)
    assert not ids.contradict("r-2", 5, "r-1"), "from now on the token tells"


def test_doubts_are_bounded_too() -> None:
    ids = RemoteIds(kept_max=2)
    for job in range(4):
        assert ids.give(f"r-{job}", job)
        assert ids.contradict(f"r-{job}", 99, None)
    assert [ids.is_doubted(f"r-{job}") for job in range(4)] == [False, False, True, True]


def test_where_ids_are_repeated_none_contradicts_the_token() -> None:
    ids = RemoteIds()
    assert ids.give("r-1", 1)
    assert not ids.give("r-1", 2)
    assert not ids.contradict("r-1", 3, None)
    assert not ids.is_doubted("r-1")
