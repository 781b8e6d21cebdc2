"""Several files that appear together, whole or not at all: of this machine, or objects of stores."""

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Protocol, Self

from orchestrator.formats.output.atomic_file import Replacement, storage_error, sync_folder
from orchestrator.stores.object_url import Location


class ComingFile(Protocol):
    """What appears whole or not at all: a file of this machine (`Replacement`), or an object of a store."""

    @property
    def path(self) -> Location:
        """Where."""
        ...

    @property
    def is_in_place(self) -> bool:
        """Whether it has taken its place."""
        ...

    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None, /
    ) -> None: ...

    def write(self, data: bytes) -> None:
        """Adds `data`. Raises `StorageError`."""
        ...

    def prepare(self) -> None:
        """Makes what was written durable, beside its place. Nothing can be written afterwards. Raises likewise."""
        ...

    def put_in_place(self) -> None:
        """It appears. Raises `OSError`, or `StorageError`."""
        ...


def commit_together(files: Sequence[ComingFile]) -> None:
    """Commits all of them, or, should that fail, none: what they have replaced by then is put back. Objects of stores
    are the first, and once they are there they stay.

    A crash in between leaves some of them new and some old, each whole. Raises `StorageError`.
    """
    for file in files:
        file.prepare()
    for file in files:
        if not isinstance(file, Replacement):
            file.put_in_place()
    renamed = [file for file in files if isinstance(file, Replacement) and not file.is_stream]
    done: list[_Done] = []
    for file in renamed:
        before = _Done.about(file.target) if len(renamed) > 1 else _Done(file.target, was_there=False, kept=None)
        try:
            file.put_in_place()
        except OSError as error:
            before.forget()
            for each in done:
                each.put_back()
            raise storage_error(file.path, error) from error
        done.append(before)
    for each in done:
        each.forget()
    for folder, path in {file.target.parent: file.path for file in renamed}.items():
        try:
            sync_folder(folder)
        except OSError as error:
            raise storage_error(path, error) from error


class _Done(NamedTuple):
    """A target that has another content by now, and a second name for what it was before."""

    target: Path
    was_there: bool
    kept: Path | None
    """None where there was nothing, or the file system has no such names."""

    @classmethod
    def about(cls, target: Path) -> Self:
        kept = target.with_name(f".{target.name}.{os.getpid()}.old")
        kept.unlink(missing_ok=True)
        try:
            os.link(target, kept)
        except OSError:
            return cls(target, was_there=target.exists(), kept=None)
        return cls(target, was_there=True, kept=kept)

    def forget(self) -> None:
        if self.kept is not None:
            self.kept.unlink(missing_ok=True)

    def put_back(self) -> None:
        with suppress(OSError):
            if self.kept is not None:
                self.kept.replace(self.target)
            elif not self.was_there:
                self.target.unlink(missing_ok=True)
