"""How the dashboard is served, and who may see and do what there: each setting declared once."""

import ipaddress
from enum import StrEnum
from functools import partial
from typing import Annotated, Final
from urllib.parse import urlsplit

import msgspec

from orchestrator.core.service.addresses import Address, interface_url, parse_address
from orchestrator.settings.configuration_file import ENVIRONMENT_PREFIX, Section, by_key
from orchestrator.settings.setting import Panel, Setting, setting_of, settings_in
from orchestrator.settings.tables.table_names import DASHBOARD_TABLE
from orchestrator.settings.value_types import SWITCH, Kind, listed, one_of, parsed

LISTEN_DEFAULT: Final = Address("127.0.0.1", 8901)

_served = partial(Setting, panel=Panel.SERVED)
_access = partial(Setting, panel=Panel.ACCESS)


class PayloadChoice(StrEnum):
    """Whether pages show what goes into jobs and comes out of them."""

    SHOW = "show"
    HIDE = "hide"


def _url(text: str) -> str:
    return interface_url(text, added="")


def _header(text: str) -> str:
    if not text or not all(c.isascii() and (c.isalnum() or c == "-") for c in text):
        raise ValueError(f'"{text:.40}" is no name of a header; write X-Remote-User')
    return text


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f'"{text:.40}" is no address of a proxy; write 127.0.0.1') from None


def _member(text: str) -> str:
    if text.partition(".")[0] not in ("input", "output") or not all(text.split(".")):
        raise ValueError(f'"{text:.40}" is no part of a payload; write input.email or output')
    return text


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 < share <= 1:
        raise ValueError(f'"{text:.40}" is no share of jobs; write a number from 0 to 1, as 0.01')
    return share


class DashboardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How the dashboard is served."""

    listen: Annotated[
        Address,
        _served(
            "listen",
            parsed("HOST:PORT", parse_address),
            "Where to listen; port 0 is any free one. Other machines reach it only where another host is named.",
            brief="Where to listen; 127.0.0.1:8901",
        ),
    ] = LISTEN_DEFAULT
    url: Annotated[
        str | None,
        _served(
            "url",
            parsed("URL", _url),
            "Where people reach it, behind a proxy or by a name: `https://jobs.example.org/orchestrator`. Its path is"
            " put before every link; the proxy may strip it or not. Messages link there.",
            brief="Where people reach it, behind a proxy",
        ),
    ] = None
    no_login: Annotated[
        bool,
        _access(
            "no-login",
            SWITCH,
            "Whoever reaches it may do everything. On this machine's own addresses only.",
            brief="Without keys, on this machine only",
        ),
    ] = False
    user_header: Annotated[
        str | None,
        _access(
            "user-header",
            parsed("NAME", _header),
            "The header in which the proxy names who is signed in, as `X-Remote-User`. It is believed of"
            " `--proxy` alone.",
        ),
    ] = None
    proxies: Annotated[
        tuple[str, ...],
        _access("proxy", listed("ADDRESS", _host), "From which address that proxy connects. Repeatable."),
    ] = ()
    operators: Annotated[
        tuple[str, ...],
        _access(
            "operator",
            listed("NAME", str),
            "Of those whom the proxy names, who may act; the others look. Repeatable.",
            default="everybody",
        ),
    ] = ()
    read_only: Annotated[
        bool,
        _access("read-only", SWITCH, "Nobody can act: there are no pages that would.", brief="Nobody can act there"),
    ] = False
    payloads: Annotated[
        PayloadChoice,
        _access(
            "payloads",
            one_of(PayloadChoice),
            "`hide`: inputs and outputs are neither shown nor searched. Viewers never see them.",
            brief="Whether inputs and outputs are shown",
        ),
    ] = PayloadChoice.SHOW
    redact: Annotated[
        tuple[str, ...],
        _access(
            "redact",
            listed("MEMBER", _member),
            "A member of inputs or outputs that is neither shown nor searched, as `input.email`. Repeatable.",
        ),
    ] = ()

    trace: Annotated[
        float | None,
        _served(
            "trace",
            parsed("SHARE", _share, "{:g}".format, kind=Kind.NUMBER),
            "Sends [traces](monitoring.md#traces) of that share of the jobs as they end, to where"
            " `OTEL_EXPORTER_OTLP_ENDPOINT` says; 0.01 is one job in a hundred.",
            default="none",
        ),
    ] = None

    @property
    def prefix(self) -> str:
        """The path of `url`: "" or `/...`."""
        return "" if self.url is None else urlsplit(self.url).path.rstrip("/")

    @property
    def origin(self) -> str | None:
        """The scheme and host of `url`, as browsers name it."""
        if self.url is None:
            return None
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.lower()}"


DASHBOARD_FLAGS: Final = settings_in(DashboardSettings)

PAYLOADS: Final[Setting[PayloadChoice]] = setting_of(DashboardSettings, "payloads")
REDACT: Final[Setting[tuple[str, ...]]] = setting_of(DashboardSettings, "redact")

DASHBOARDS: Final = Section(by_key(DASHBOARD_FLAGS), f"{ENVIRONMENT_PREFIX}DASHBOARD_", DASHBOARD_TABLE)
"""Its table of the file, and its variables."""
