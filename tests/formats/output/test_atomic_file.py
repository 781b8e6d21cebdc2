"""Files that appear whole or not at all."""

import errno
import os
import socket
import stat
from contextlib import nullcontext
from pathlib import Path

import pytest

from orchestrator.errors import StorageError, UsageError
from orchestrator.formats.output.atomic_file import (
    NOWHERE,
    Replacement,
    _unwritable,
    check_writable,
    errors_for,
    same_file,
)
from orchestrator.formats.output.writers import form_of
from orchestrator.settings.output_settings import OutputSettings


def write(path: Path, data: bytes) -> None:
    with Replacement(path) as replacement:
        replacement.write(data)
        replacement.commit()


def test_the_target_appears_at_commit_and_nothing_else_stays(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"

    with Replacement(target) as replacement:
        replacement.write(b"one\n")
        replacement.write(b"two\n")
        assert [path.name for path in tmp_path.iterdir()] == [f".results.jsonl.{os.getpid()}.tmp"]
        replacement.commit()

    assert target.read_bytes() == b"one\ntwo\n"
    assert list(tmp_path.iterdir()) == [target]


def test_an_exception_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"
    target.write_bytes(b"old")

    with pytest.raises(KeyboardInterrupt), Replacement(target) as replacement:  # noqa: PT012 (the write comes before)
        replacement.write(b"new")
        raise KeyboardInterrupt

    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def test_leaving_without_commit_throws_away_what_was_written(tmp_path: Path) -> None:
    with Replacement(tmp_path / "results.jsonl") as replacement:
        replacement.write(b"new")

    assert list(tmp_path.iterdir()) == []


def test_an_existing_target_keeps_its_mode(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"
    target.write_bytes(b"old")
    target.chmod(0o640)

    write(target, b"new")

    assert target.read_bytes() == b"new"
    assert stat.S_IMODE(target.stat().st_mode) == 0o640


def test_a_new_file_gets_the_mode_that_any_program_gives(tmp_path: Path) -> None:
    (tmp_path / "other").touch()

    write(tmp_path / "results.jsonl", b"new")

    assert (tmp_path / "results.jsonl").stat().st_mode == (tmp_path / "other").stat().st_mode


def test_behind_a_symbolic_link_its_target_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    folder = tmp_path / "real"
    folder.mkdir()
    link = tmp_path / "link.jsonl"
    link.symlink_to(folder / "results.jsonl")

    write(link, b"first")
    write(link, b"second")

    assert link.is_symlink()
    assert (folder / "results.jsonl").read_bytes() == b"second"
    assert len(list(folder.iterdir())) == 1


def test_a_leftover_of_a_crash_is_replaced_and_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    target, victim = tmp_path / "results.jsonl", tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / f".results.jsonl.{os.getpid()}.tmp").symlink_to(victim)

    write(target, b"new")

    assert (target.read_bytes(), victim.read_bytes()) == (b"new", b"precious")


def test_a_pipe_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        check_writable(pipe)
        write(pipe, b"data")
        assert os.read(reader, 100) == b"data"
    finally:
        os.close(reader)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_pipe_that_nobody_reads_raises_broken_pipe_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    check_writable(tmp_path / "pipe")  # its reader may come later

    with pytest.raises(BrokenPipeError):
        write(tmp_path / "pipe", b"data")


def test_a_socket_is_no_file(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(os.path.relpath(tmp_path / "socket"))
        with pytest.raises(UsageError, match="it is a socket; name a file"):
            check_writable(tmp_path / "socket")


def test_a_pipe_whose_reader_left_raises_broken_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with Replacement(pipe) as replacement:
        os.close(reader)
        replacement.write(b"data")
        with pytest.raises(BrokenPipeError):
            replacement.commit()


def test_an_open_stream_is_appended_to_even_when_a_file_is_behind_it(tmp_path: Path) -> None:
    behind = tmp_path / "out.jsonl"
    behind.write_bytes(b"before\n")
    with behind.open("ab") as stream:
        path = Path(f"/dev/fd/{stream.fileno()}")
        check_writable(path)
        write(path, b"after\n")

    assert behind.read_bytes() == b"before\nafter\n"
    assert list(tmp_path.iterdir()) == [behind]


def test_a_target_that_became_a_folder_meanwhile_is_a_storage_error(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"

    with Replacement(target) as replacement:
        target.mkdir()
        with pytest.raises(StorageError) as caught:
            replacement.commit()
        advice = "Is a directory; free space or fix permissions, then give the command again"
        assert str(caught.value) == f"cannot write {target}: {advice}"

    assert list(tmp_path.iterdir()) == [target]


def test_a_write_that_fails_is_a_storage_error(tmp_path: Path) -> None:
    with Replacement(tmp_path / "results.jsonl") as replacement:
        os.close(replacement._opened().fileno())
        with pytest.raises(StorageError, match="Bad file descriptor"):
            replacement.write(b"x" * 2_000_000)
    assert list(tmp_path.iterdir()) == []


def test_checking_a_good_path_leaves_no_trace(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"
    check_writable(target)
    assert list(tmp_path.iterdir()) == []

    target.write_bytes(b"old")
    check_writable(target)
    assert target.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [target]


def refusals(path: Path) -> tuple[str, str]:
    with pytest.raises(UsageError) as checked:
        check_writable(path)
    with pytest.raises(UsageError) as opened, Replacement(path):
        pass
    return str(checked.value), str(opened.value)


def test_what_cannot_be_written_is_found_before_with_advice(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = {
        tmp_path / "no" / "out.jsonl": f"the folder {tmp_path / 'no'} does not exist; create it or choose another",
        tmp_path: f"it is a folder; name a file in it, for example {tmp_path / 'results.jsonl'}",
        tmp_path / "file" / "out.jsonl": f"{tmp_path / 'file'} is not a folder; choose another place",
        tmp_path / ("x" * 300): "File name too long; choose another place",
    }
    for path, advice in cases.items():
        text = f"cannot write {path}: {advice}"
        assert refusals(path) == (text, text)


def test_a_write_protected_target_is_refused_although_renaming_would_replace_it(tmp_path: Path) -> None:
    target = tmp_path / "results.jsonl"
    target.touch(mode=0o444)
    # Nothing is protected from root.
    refused = pytest.raises(UsageError, match=f"no permission to write to {target}") if os.geteuid() else nullcontext()

    with refused:
        check_writable(target)


def test_missing_permission_names_what_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "out.jsonl"

    assert _unwritable(path, PermissionError(errno.EACCES, "no")) == (
        f"cannot write {path}: no permission to write to {tmp_path}; change that or choose another place"
    )
    assert _unwritable(path, OSError(errno.EROFS, "no")) == (
        f"cannot write {path}: {tmp_path} is read-only; choose another place"
    )


def test_links_that_lead_in_a_circle_are_no_other_file_and_cannot_be_written(tmp_path: Path) -> None:
    circle = tmp_path / "circle"
    circle.symlink_to(circle)

    assert not same_file(circle, tmp_path / "ledger.db")
    with pytest.raises(UsageError, match="circle"):
        check_writable(circle)


def test_the_root_is_a_folder_like_any_other() -> None:
    with pytest.raises(UsageError, match=r"cannot write /: it is a folder; name a file in it, for example /results"):
        check_writable(Path("/"))
    with pytest.raises(UsageError, match="cannot write /: it is a folder"), Replacement(Path("/")):
        pass
    with pytest.raises(UsageError, match="cannot write /: it is a folder"):
        form_of(Path("/"), OutputSettings(split=2), (), is_errors=False)


def test_errors_go_beside_a_file_and_nowhere_beside_a_stream() -> None:
    assert errors_for(Path("a/o.csv")) == Path("a/o.csv.errors.jsonl")
    assert [errors_for(Path(each)) for each in ("/dev/null", "/dev/stdout", "/dev/fd/1")] == [NOWHERE] * 3
