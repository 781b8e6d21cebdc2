"""Who is told of what: an address or a command that is written out, and targets of the configuration file by name.

What a ledger keeps of a target is its name, so no address of it, and no secret, ever stands there.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from orchestrator.core.pipelines.pipeline import News, Notify
from orchestrator.core.pipelines.run_messages import RunNews
from orchestrator.core.service.s3_config import REFERENCE

WRITTEN_OUT: Final = ""
"""In the place of a target's name: the address or the command that stands beside it."""

NEWS_WORDS: Final = tuple(dict.fromkeys((*map(str, News), *map(str, RunNews))))
"""All that anybody can be told of, flows and runs together."""

NOT_UNASKED: Final = frozenset({str(News.STARTED)})
"""What is told only to those who ask for it."""

_TARGET: Final = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9_-]{0,39})(:(?P<on>[a-z-]+(,[a-z-]+)*))?")


class Receiver(msgspec.Struct, frozen=True):
    """One who is told."""

    target: str
    """Its name, or `WRITTEN_OUT`."""

    on: tuple[str, ...] = ()
    """What it is told of; empty: what its target says."""

    def wants(self, news: str) -> bool:
        """Whether it is to be told of that, as far as is said here."""
        if self.on:
            return news in self.on
        return bool(self.target) or news not in NOT_UNASKED


def parse_receiver(text: str) -> Receiver:
    """A target as it is written: `ops`, or `ops:failed,held`. Raises `ValueError`."""
    found = _TARGET.fullmatch(text)
    if found is None or REFERENCE.fullmatch(text):
        raise ValueError(
            f'"{text:.60}" is no target; write its name, as in ops, or what it is told of, as in ops:failed'
        )
    on = tuple((found["on"] or "").split(",")) if found["on"] else ()
    for each in on:
        if each not in NEWS_WORDS:
            raise ValueError(f'"{each:.40}" is none of {", ".join(NEWS_WORDS)}')
    return Receiver(found["name"], on)


def is_receiver(text: str) -> bool:
    """Whether it is written as a target is. A word alone may be a program's name all the same."""
    return _TARGET.fullmatch(text) is not None and REFERENCE.fullmatch(text) is None


def receivers_of_run(notify: str | None) -> tuple[Receiver, ...]:
    """Whom a run tells; `notify` has one in each line."""
    lines = () if notify is None else notify.split("\n")
    return tuple(parse_receiver(line) if is_receiver(line) else Receiver(WRITTEN_OUT) for line in lines)


def written_out(notify: str | None) -> str | None:
    """The address or the command of `notify`, which has one in each line; None where it has none."""
    lines = () if notify is None else notify.split("\n")
    return next((line for line in lines if not is_receiver(line)), None)


def receivers_of_pipeline(notify: Notify | None) -> tuple[Receiver, ...]:
    """Whom a pipeline tells."""
    if notify is None:
        return ()
    here = (Receiver(WRITTEN_OUT, tuple(map(str, notify.on))),) if notify.url or notify.command else ()
    return (*here, *(_narrowed(parse_receiver(each), notify.on) for each in notify.to))


def _narrowed(receiver: Receiver, on: Iterable[News]) -> Receiver:
    """A target of a pipeline that says what is told of: that counts where the target is not told of its own."""
    return receiver if receiver.on else Receiver(receiver.target, tuple(map(str, on)))


def receivers_for(receivers: Iterable[Receiver], news: str) -> tuple[str, ...]:
    """The names of those who want to hear of it, each once."""
    return tuple(dict.fromkeys(each.target for each in receivers if each.wants(news)))
