"""Where outcomes are written: files beside the ledger, and none of its own, and objects of stores."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Event

from orchestrator.errors import UsageError
from orchestrator.formats.output.atomic_file import Replacement, check_writable, same_file
from orchestrator.formats.output.coming_files import ComingFile
from orchestrator.settings.addresses.companions import Companion, companion_of, real_file
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.stores.object_url import Location, ObjectUrl


def check_outputs(ledger: LedgerAddress, outputs: Iterable[Location]) -> None:
    """Raises `UsageError` for an output that cannot be written, or whose writing would destroy part of the ledger."""
    for path in outputs:
        if not isinstance(path, ObjectUrl) and _is_of_ledger(ledger, path):
            raise UsageError(f"{path}: this file belongs to the ledger {ledger}; write to another file")
        check_location(path)


def check_location(path: Location) -> None:
    """Raises `UsageError` where nothing could be written at `path`."""
    if isinstance(path, ObjectUrl):
        from orchestrator.stores.object_writer import check_object_writable  # noqa: PLC0415  loads what asks stores

        check_object_writable(path)
    else:
        check_writable(path)


def make_writable(path: Location) -> None:
    """The same, with the folder of a file, which a path with the time in it may name anew each month."""
    if isinstance(path, Path):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"{path.parent}: the folder cannot be made ({error.strerror})") from None
    check_location(path)


def coming_file(path: Location, ledger: LedgerAddress, given_up: Event | None = None) -> ComingFile:
    """The coming content of a file or an object. Uploads are noted beside the ledger, and not waited for once they are
    `given_up`.
    """
    if isinstance(path, ObjectUrl):
        from orchestrator.stores.object_writer import ObjectReplacement  # noqa: PLC0415  loads what asks stores

        return ObjectReplacement(path, companion_of(ledger, Companion.UPLOADS), given_up=given_up)
    return Replacement(path)


def _is_of_ledger(ledger: LedgerAddress, path: Path) -> bool:
    parts = _parts_of_ledger(ledger)
    begins = (str(companion_of(ledger, Companion.INTAKES)), *(f"{part}{os.sep}" for part in parts))
    return os.path.realpath(path).startswith(begins) or any(same_file(path, part) for part in parts)


def _parts_of_ledger(ledger: LedgerAddress) -> Sequence[Path]:
    own = (real_file(ledger),) if isinstance(ledger, Path) else ()
    return (*own, *(companion_of(ledger, each) for each in Companion))


def own_files(ledger: LedgerAddress, others: Iterable[Location]) -> Callable[[Path], bool]:
    """What tells a file of the run's own from the inputs that are in its folder: the ledger's, and `others`."""
    parts, intakes = _parts_of_ledger(ledger), str(companion_of(ledger, Companion.INTAKES))
    known = {os.path.realpath(path) for path in (*parts, *others) if isinstance(path, Path)}

    def is_own(path: Path) -> bool:
        real = os.path.realpath(path)
        return real in known or real.startswith(intakes)

    return is_own
