"""How figures, moments and texts stand on a page: the filters of its templates. None, a figure that there is not, is a
dash.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, tzinfo
from functools import partial
from typing import Any, Final

from jinja2 import pass_context
from jinja2.runtime import Context
from markupsafe import Markup

from orchestrator.core.text.figures import (
    brief_rate,
    distance_text,
    lasting,
    money,
    rough_lasting,
    share_text,
    size_text,
)
from orchestrator.core.text.wording import visible
from orchestrator.dashboard.charts.amounts import amount_text
from orchestrator.dashboard.rendering.state_looks import look_of, sign_of, word_of
from orchestrator.errors import flag_name, with_settings_named
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.command_names import with_its_ledger
from orchestrator.units import EPOCH, SECOND_US
from orchestrator.views.series import Unit

NONE: Final = "–"

NEAR_DAYS: Final = 6
"""So far from today the day of the week tells which day is meant."""


def printed(value: object) -> object:
    """What stands where a template names `value`: nothing for None, and of a text what a browser would obey or hide
    is written out. It is done to all texts, so that no template can forget it.
    """
    if value is None:
        return ""
    return shown_text(value) if type(value) is str else value


def shown_text(text: str) -> str:
    """`text` with control characters, and marks that turn its direction, written out; tabs stay."""
    return text if text.isprintable() else "\t".join(map(visible, text.split("\t")))


def filters(ledger: LedgerAddress, zone: tzinfo) -> Mapping[str, Callable[..., object]]:
    """Each by the name that templates use; moments are shown by the clock of `zone`, commands are about `ledger`."""

    @pass_context
    def ago(context: Context, at_us: int | None) -> str:
        return NONE if at_us is None else distance_text(at_us, context["now"])

    @pass_context
    def time(context: Context, at_us: int | None) -> str:
        return NONE if at_us is None else _moment(at_us, context["now"], zone)

    @pass_context  # else it would be carried out where a template is compiled, for whichever ledger that is
    def sentence(_context: Context, text: str) -> str:
        return with_its_ledger(with_settings_named(text, flag_name), ledger)

    figures: Mapping[str, Callable[[Any], str]] = {
        "bytes": size_text,
        "count": "{:,}".format,
        "duration": rough_lasting,
        "lasting": lasting,
        "money": money,
        "rate": brief_rate,
        "seconds": partial(amount_text, unit=Unit.SECONDS),
        "share": share_text,
    }
    return {
        **{name: _dashed(shown) for name, shown in figures.items()},
        "ago": ago,
        "look": look_of,
        "sentence": sentence,
        "sign": _sign,
        "time": time,
        "visible": shown_text,
        "word": word_of,
    }


def _dashed(shown: Callable[[Any], str]) -> Callable[[Any], str]:
    def figure(value: Any) -> str:
        return NONE if value is None else shown(value)

    return figure


def _sign(state: str, *, alone: bool = False) -> str:
    """The sign of a state, which goes with its word; `alone`, the word is there for who cannot see the sign."""
    word = word_of(state)
    attributes = Markup(' title="{}"').format(word) if alone else ""
    unseen = Markup('<span class="unseen">{} </span>').format(word) if alone else ""
    return Markup('<span class="sign {}"{}><span aria-hidden="true">{}</span>{}</span>').format(
        look_of(state), attributes, sign_of(state), unseen
    )


def _moment(at_us: int, now_us: int, zone: tzinfo) -> str:
    at, now = _local(at_us, zone), _local(now_us, zone)
    days = abs((at.date() - now.date()).days)
    form = "%H:%M:%S" if not days else "%a %H:%M" if days <= NEAR_DAYS else "%Y-%m-%d %H:%M"
    whole = at.isoformat(sep=" ", timespec="seconds")
    return Markup('<time datetime="{}" title="{}">{}</time>').format(
        at.isoformat(timespec="seconds"), whole, at.strftime(form)
    )


def _local(at_us: int, zone: tzinfo) -> datetime:
    return (EPOCH + timedelta(seconds=at_us // SECOND_US)).astimezone(zone)
