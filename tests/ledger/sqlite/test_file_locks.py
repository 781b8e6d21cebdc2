"""One dispatcher for each ledger and one intake for each run, kept by the kernel."""

import multiprocessing
import os
import platform
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from orchestrator.errors import IntakeBusyError, LedgerBusyError, UsageError
from orchestrator.ledger.holder_text import who_and_since
from orchestrator.ledger.sqlite.file_locks import (
    NETWORK_FILE_SYSTEMS,
    dispatcher_lock,
    holder,
    intake_lock,
    refuse_network_file_system,
)
from orchestrator.settings.parsers.name_parsers import MACHINE_CHARS_MAX
from tests.simulation.clock import EPOCH_AT

HOST = platform.node().partition(".")[0][:MACHINE_CHARS_MAX]


def test_a_second_holder_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    who = f"process {os.getpid()} on {HOST} since 2026-01-01 00:00:00 UTC"
    with dispatcher_lock(ledger, now=EPOCH_AT):
        with pytest.raises(LedgerBusyError) as caught, dispatcher_lock(ledger, now=EPOCH_AT):
            raise AssertionError("two dispatchers at once")
        assert str(caught.value) == (
            f"{ledger}: {who} is working on this ledger; wait for it, stop it, or use another ledger="
        )
        assert holder(ledger) == who

    assert holder(ledger) is None
    with dispatcher_lock(ledger, now=EPOCH_AT, doing="run captions"):
        assert holder(ledger) == f"process {os.getpid()} on {HOST} (run captions) since 2026-01-01 00:00:00 UTC"
    with dispatcher_lock(ledger, now=EPOCH_AT):
        pass


def _hold(ledger: Path, pipe: Connection) -> None:
    with dispatcher_lock(ledger, now=EPOCH_AT):
        pipe.send("held")
        pipe.recv()


def test_the_lock_of_a_dead_process_is_free(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_hold, args=(ledger, theirs))
    process.start()
    assert ours.recv() == "held"
    found = holder(ledger)
    process.kill()
    process.join()

    assert found is not None
    assert found.startswith(f"process {process.pid} on {HOST} since")
    assert holder(ledger) is None
    with dispatcher_lock(ledger, now=EPOCH_AT, doing="run captions"):
        assert holder(ledger) == f"process {os.getpid()} on {HOST} (run captions) since 2026-01-01 00:00:00 UTC"
    with dispatcher_lock(ledger, now=EPOCH_AT):
        pass


def test_all_links_to_a_ledger_share_its_lock(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "l.db")
    with dispatcher_lock(tmp_path / "l.db", now=EPOCH_AT):
        with pytest.raises(LedgerBusyError), dispatcher_lock(tmp_path / "link.db", now=EPOCH_AT):
            raise AssertionError("two dispatchers at once")
        assert holder(tmp_path / "link.db") is not None


def test_whoever_holds_a_lock_without_a_text_is_another_process(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    with dispatcher_lock(ledger, now=EPOCH_AT):
        (tmp_path / "l.db.lock").write_bytes(b"")
        assert holder(ledger) == "another process"
        with pytest.raises(LedgerBusyError, match="another process is working"), dispatcher_lock(ledger, now=EPOCH_AT):
            raise AssertionError("two dispatchers at once")


def test_nobody_holds_a_ledger_that_was_never_worked_on(tmp_path: Path) -> None:
    assert holder(tmp_path / "l.db") is None


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    ledger = tmp_path / "none" / "l.db"
    with pytest.raises(UsageError, match="is the folder there and writable"), dispatcher_lock(ledger, now=EPOCH_AT):
        raise AssertionError("locked nothing")


def mounts(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "mounts"
    path.write_text("".join(f"{line}\n" for line in ("/dev/sda1 / ext4 rw 0 0", "broken", *lines)))
    return path


@pytest.mark.parametrize("kind", sorted(NETWORK_FILE_SYSTEMS))
def test_a_network_file_system_is_refused(kind: str, tmp_path: Path) -> None:
    table = mounts(tmp_path, f"server:/x {tmp_path} {kind} rw 0 0")
    (tmp_path / "deep").mkdir()

    with pytest.raises(UsageError, match=rf"a ledger on a network file system \({kind}\) is not safe"):
        refuse_network_file_system(tmp_path / "deep", mounts=table)


def test_the_mount_closest_to_the_folder_counts_and_of_those_the_last(tmp_path: Path) -> None:
    local, remote = tmp_path / "a b", tmp_path / "auto"
    local.mkdir()
    remote.mkdir()
    table = mounts(
        tmp_path,
        f"{tmp_path.as_posix().replace(' ', chr(92) + '040')}/a\\040b x",
        f"disk {tmp_path}/a\\040b ext4 rw 0 0",
        f"server:/x {tmp_path} nfs4 rw 0 0",
        f"systemd-1 {remote} autofs rw 0 0",
        f"server:/y {remote} nfs rw 0 0",
    )

    refuse_network_file_system(local, mounts=table)
    with pytest.raises(UsageError, match=r"\(nfs\)"):
        refuse_network_file_system(remote, mounts=table)


def test_where_the_system_does_not_tell_its_mounts_the_folder_passes(tmp_path: Path) -> None:
    refuse_network_file_system(tmp_path, mounts=tmp_path / "none")


# --- intakes


def test_one_process_at_a_time_takes_in_for_a_run_and_others_are_told_who(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    with intake_lock(ledger, "a/b", now=EPOCH_AT), intake_lock(ledger, "another", now=EPOCH_AT):
        with pytest.raises(IntakeBusyError) as caught, intake_lock(ledger, "a/b", now=EPOCH_AT):
            raise AssertionError("two intakes of one run at once")
        who = f"process {os.getpid()} on {HOST} since 2026-01-01 00:00:00 UTC"
        assert str(caught.value) == f"{who} is reading rows for the run 'a/b'"
        with dispatcher_lock(ledger, now=EPOCH_AT):
            assert len(list(tmp_path.glob("l.db.intake-*"))) == 2, "those of living processes stay"
    with intake_lock(ledger, "a/b", now=EPOCH_AT):
        pass
    assert list(tmp_path.iterdir()) == [tmp_path / "l.db.lock"]


def _take_in(ledger: Path, pipe: Connection) -> None:
    with intake_lock(ledger, "run", now=EPOCH_AT):
        pipe.send("held")
        pipe.recv()


@pytest.mark.slow
def test_the_lock_of_a_dead_intake_is_free_and_its_file_goes_with_the_next_engine(tmp_path: Path) -> None:
    ledger = tmp_path / "l.db"
    processes = multiprocessing.get_context("spawn")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_take_in, args=(ledger, theirs))
    process.start()
    assert ours.recv() == "held"
    with (
        pytest.raises(IntakeBusyError, match=f"process {process.pid} on {HOST} since"),
        intake_lock(ledger, "run", now=EPOCH_AT),
    ):
        raise AssertionError("two intakes of one run at once")
    process.kill()
    process.join()

    assert len(list(tmp_path.glob("l.db.intake-*"))) == 1
    with intake_lock(ledger, "run", now=EPOCH_AT):
        pass
    (tmp_path / "l.db.intake-0123456789abcdef").touch()
    with dispatcher_lock(ledger, now=EPOCH_AT):
        assert list(tmp_path.iterdir()) == [tmp_path / "l.db.lock"]


def _take_what_goes(ledger: Path, pipe: Connection) -> None:
    """In a process of its own: what hears of each call of the system cannot be taken away again."""
    first = ExitStack()
    first.enter_context(intake_lock(ledger, "run", now=EPOCH_AT))
    sys.addaudithook(lambda event, _: first.close() if event == "fcntl.flock" else None)
    with intake_lock(ledger, "run", now=EPOCH_AT):
        try:
            with intake_lock(ledger, "run", now=EPOCH_AT):
                pipe.send("held twice")
        except IntakeBusyError:
            pipe.send("held once")


def test_a_lock_that_goes_between_its_opening_and_its_taking_is_made_anew(tmp_path: Path) -> None:
    processes = multiprocessing.get_context("fork")
    ours, theirs = processes.Pipe()
    process = processes.Process(target=_take_what_goes, args=(tmp_path / "l.db", theirs))
    process.start()
    theirs.close()
    assert ours.recv() == "held once"
    process.join()
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_comes_and_goes_is_never_held_twice(tmp_path: Path) -> None:
    holders, most = 0, []

    def take_turns() -> None:
        nonlocal holders
        for _ in range(300):
            with suppress(IntakeBusyError), intake_lock(tmp_path / "l.db", "run", now=EPOCH_AT):
                holders += 1
                for _ in range(5):
                    tmp_path.stat()  # which lets another thread run
                most.append(holders)
                holders -= 1

    with ThreadPoolExecutor(8) as threads:
        for ended in [threads.submit(take_turns) for _ in range(8)]:
            ended.result()
    assert set(most) == {1}
    assert list(tmp_path.iterdir()) == []


def test_what_a_holder_says_of_itself_has_two_parts() -> None:
    assert who_and_since("process 7 (run a since b) since 2026-01-01 00:00:00 UTC") == (
        "process 7 (run a since b)",
        EPOCH_AT,
    )
    assert who_and_since("another process") == ("another process", None)
