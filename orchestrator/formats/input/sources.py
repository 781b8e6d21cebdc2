"""Which inputs are meant by what was named: files, objects, standard input; and where their rows stand."""

import bisect
import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from orchestrator.core.text.object_urls import is_object_url
from orchestrator.errors import UsageError
from orchestrator.formats.text.compression import bare_name
from orchestrator.settings.words_and_defaults import STANDARD_INPUT
from orchestrator.stores.object_url import Location, ObjectUrl, is_pattern, location_of


def sources_of(given: Sequence[str], *, missing_ok: bool = False) -> list[str]:
    """The inputs that were named, with those that a pattern means in its place, in order.

    Raises `UsageError` for a pattern that means none, unless that is `missing_ok`: then no store is asked, either.
    """
    found: list[str] = []
    for name in given:
        if is_object_url(name):
            found += [name] if missing_ok else _objects(name)
        elif name == STANDARD_INPUT or os.path.lexists(name) or not is_pattern(name):
            found.append(name)
        elif matches := sorted(glob.glob(name)):  # noqa: PTH207  a pattern may begin at the root
            found += matches
        elif not missing_ok:
            raise UsageError(f"{name}: no file has a name like that")
    return found


def _objects(name: str) -> list[str]:
    """The URLs of the objects that a URL means."""
    place = ObjectUrl.parsed(name)
    if place.is_dir():
        raise UsageError(f"{place}: a folder of a store is no input; name its objects, for example {place}*.jsonl")
    try:
        matches = place.matching()
    except OSError as error:
        raise UsageError(f"{place}: cannot read the input ({error.strerror})") from error
    if not matches:
        raise UsageError(f"{place}: no object has a name like that")
    return [each.url for each in matches]


def shown_sources(sources: Iterable[str]) -> str:
    """How sources are kept and shown: URLs without what may be a secret."""
    return ", ".join(str(ObjectUrl.parsed(each)) if is_object_url(each) else each for each in sources)


def places_of(sources: Sequence[str]) -> Iterator[Location]:
    """The files and objects that were named, for comparing: those that are not there, too, and patterns of a store."""
    return (location_of(each) for each in sources_of(sources, missing_ok=True) if each != STANDARD_INPUT)


def stem_of(source: str) -> str:
    """The name of a file or an object without its endings."""
    return Path(bare_name(location_of(source).name)).stem


class InputPositions:
    """Where rows stand in an input that may be several files."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._names: list[tuple[str, str]] = []

    def begin(self, first: int, name: str, unit: str) -> None:
        """From line `first` on rows are those of the file `name`, in which one is a `unit`."""
        self._firsts.append(first)
        self._names.append((name, unit))

    def of(self, line: int) -> str:
        """Where `line` is, as a person finds it; the file is named where there are several."""
        if not self._firsts:
            return f"line {line}"
        which = max(bisect.bisect_right(self._firsts, line) - 1, 0)
        name, unit = self._names[which]
        place = f"{unit} {line - self._firsts[which] + 1}"
        return place if len(self._firsts) == 1 else f"{name}, {place}"
