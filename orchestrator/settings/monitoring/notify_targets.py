"""Who can be told: each target by a table of its own in the configuration file, as in `[notify.ops]`.

A target is kept nowhere but in that file, and what is secret of it in an environment variable that the file names.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Annotated, Final

import msgspec

from orchestrator.core.pipelines.message_text import parse_letter_template
from orchestrator.core.pipelines.receivers import NEWS_WORDS, NOT_UNASKED
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.settings.parsers.job_parsers import check_second_or_more, duration
from orchestrator.settings.setting import Setting
from orchestrator.settings.value_types import Kind, ValueType, one_of, parsed
from orchestrator.units import MINUTE_US

_MAIL: Final = re.compile(r"[^\s<>@,;:\"]+@[^\s<>@,;:\"]+")
_SERVER: Final = re.compile(r"(?P<host>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:(?P<port>[0-9]{1,5}))?")
PORT_MAX: Final = 65_535

_target: Final = partial(Setting, has_flag=False)


class TargetKind(StrEnum):
    """How a message reaches somebody."""

    WEBHOOK = "webhook"
    """A POST of the JSON, by Standard Webhooks."""

    SLACK = "slack"
    DISCORD = "discord"
    TEAMS = "teams"
    EMAIL = "email"
    COMMAND = "command"
    PING = "ping"
    """A service that raises the alarm where it is not asked for: at the start, at the end, while a process works."""


class MailSecurity(StrEnum):
    """How a mail server is spoken to."""

    STARTTLS = "starttls"
    TLS = "tls"
    OFF = "off"


DEFAULT_PORTS: Final[Mapping[MailSecurity, int]] = MappingProxyType(
    {MailSecurity.STARTTLS: 587, MailSecurity.TLS: 465, MailSecurity.OFF: 25}
)

PING_NEWS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "started": "start",
        "done": "url",
        "recovered": "url",
        "test": "url",
        **dict.fromkeys(
            ("partial", "failed", "held", "stopped", "stalled", "interrupted", "abandoned", "late"), "fail"
        ),
    }
)
"""What of a ping is asked for by which news; by all others nothing is."""


def _variable(text: str) -> str:
    if not REFERENCE.fullmatch(text):
        raise ValueError("write env:NAME, where NAME is the variable that holds it: it is a secret")
    return text


def _news_words(given: Sequence[str]) -> tuple[str, ...]:
    for each in given:
        if each not in NEWS_WORDS:
            raise ValueError(f'"{each:.40}" is none of {", ".join(NEWS_WORDS)}')
    return tuple(each for each in NEWS_WORDS if each in given)


def _address(text: str) -> str:
    if not _MAIL.fullmatch(text) or not text.isascii() or not text.isprintable():
        raise ValueError(f'"{text:.60}" is no mail address; write it as name@example.org')
    return text


def _addresses(given: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(_address, given))


def _server(text: str) -> str:
    found = _SERVER.fullmatch(text)
    if found is None or not 0 < int(found["port"] or 1) <= PORT_MAX:
        raise ValueError(f'"{text:.60}" is no server; write it as smtp.example.org or smtp.example.org:587')
    return text


def _program(given: Sequence[str]) -> tuple[str, ...]:
    if not given or not given[0] or any("\0" in each for each in given):
        raise ValueError("this is no command; write the program and each of its arguments as a text of its own")
    return tuple(given)


_secret: Final = parsed("env:NAME", _variable)


class NotifyTarget(msgspec.Struct, frozen=True, kw_only=True):
    """One who can be told."""

    kind: Annotated[TargetKind, _target("kind", one_of(TargetKind), "How it is told.", default="required")]
    url: Annotated[
        str | None,
        _target(
            "url",
            _secret,
            "The variable that holds the URL that is posted to; of a `ping`, the one for the end.",
            default="required, but for `email`, `command`, and a `ping` with a `heartbeat`",
        ),
    ] = None
    on: Annotated[
        tuple[str, ...],
        _target(
            "on",
            ValueType(Kind.LIST, "|".join(NEWS_WORDS), _news_words, tuple),
            "What it is told of, where who names it says nothing else.",
            default="all but `started`; a `ping`: all that it knows",
        ),
    ] = ()
    template: Annotated[
        str | None,
        _target(
            "template",
            parsed("TEXT", parse_letter_template),
            "What `slack`, `discord`, `teams` and `email` say instead: a text with `{name}`, `{news}`, `{title}`,"
            " `{why}`, `{figures}`, `{kinds}`, `{commands}` and `{link}`.",
            default="all of it",
        ),
    ] = None
    secret: Annotated[
        str | None,
        _target(
            "secret", _secret, "Of a `webhook`: the variable that holds what messages are signed with.", default="none"
        ),
    ] = None
    command: Annotated[
        tuple[str, ...],
        _target(
            "command",
            ValueType(Kind.LIST, '["PROGRAM", "ARGUMENT", ...]', _program, tuple),
            "Of a `command`: what gets the message on its input, as JSON.",
            default="none",
        ),
    ] = ()
    start: Annotated[
        str | None,
        _target("start", _secret, "Of a `ping`: what is asked for at the start.", default="`url`, and `/start`"),
    ] = None
    fail: Annotated[
        str | None,
        _target("fail", _secret, "Of a `ping`: what is asked for at a bad end.", default="`url`, and `/fail`"),
    ] = None
    heartbeat: Annotated[
        str | None,
        _target(
            "heartbeat",
            _secret,
            "Of a `ping`: what is asked for again and again while a process works on a ledger.",
            default="none",
        ),
    ] = None
    every_us: Annotated[
        int, _target("every", duration(check_second_or_more), "Of a `ping`: how often its heartbeat is asked for.")
    ] = MINUTE_US
    server: Annotated[
        str | None,
        _target(
            "server",
            parsed("HOST[:PORT]", _server),
            "Of an `email`: the mail server. The port is 587, with `tls` 465.",
            default="required",
        ),
    ] = None
    security: Annotated[
        MailSecurity,
        _target(
            "security",
            one_of(MailSecurity),
            "How the server is spoken to. Its certificate is checked; `off` is for one on this machine.",
        ),
    ] = MailSecurity.STARTTLS
    user: Annotated[str | None, _target("user", parsed("NAME", str), "Who signs in there.", default="nobody")] = None
    password: Annotated[
        str | None, _target("password", _secret, "The variable that holds the password.", default="none")
    ] = None
    sender: Annotated[
        str | None, _target("from", parsed("ADDRESS", _address), "Whom a mail is from.", default="required")
    ] = None
    to: Annotated[
        tuple[str, ...],
        _target("to", ValueType(Kind.LIST, "ADDRESS", _addresses, tuple), "Whom a mail is for.", default="required"),
    ] = ()

    @property
    def variables(self) -> frozenset[str]:
        """The environment variables that hold what is secret of it."""
        given = (self.url, self.secret, self.start, self.fail, self.heartbeat, self.password)
        return frozenset(each.removeprefix("env:") for each in given if each is not None)

    def wants(self, news: str) -> bool:
        """Whether it is told of that where nobody says what it is told of."""
        if self.kind is TargetKind.PING and (news not in PING_NEWS or self.url is None):
            return news == "test" and self.heartbeat is not None
        if self.on:
            return news in self.on or news == "test"
        return self.kind is TargetKind.PING or news not in NOT_UNASKED


_CHAT: Final = frozenset({TargetKind.SLACK, TargetKind.DISCORD, TargetKind.TEAMS})
_KEYS_OF: Final[Mapping[TargetKind, frozenset[str]]] = MappingProxyType(
    {
        TargetKind.WEBHOOK: frozenset({"url", "secret"}),
        **dict.fromkeys(_CHAT, frozenset({"url", "template"})),
        TargetKind.EMAIL: frozenset({"server", "security", "user", "password", "from", "to", "template"}),
        TargetKind.COMMAND: frozenset({"command"}),
        TargetKind.PING: frozenset({"url", "start", "fail", "heartbeat", "every"}),
    }
)
_NEEDED: Final[Mapping[TargetKind, tuple[str, ...]]] = MappingProxyType(
    {
        TargetKind.WEBHOOK: ("url",),
        **dict.fromkeys(_CHAT, ("url",)),
        TargetKind.EMAIL: ("server", "from", "to"),
        TargetKind.COMMAND: ("command",),
        TargetKind.PING: (),
    }
)
_OF_ALL: Final = frozenset({"kind", "on"})


def target_problems(kind: TargetKind, given: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What is wrong with a target of that kind that says these keys: the key, and why."""
    for key in sorted(given - _OF_ALL - _KEYS_OF[kind]):
        yield key, f"a target of kind {kind} has none; it has {', '.join(sorted(_KEYS_OF[kind]))}"
    for key in _NEEDED[kind]:
        if key not in given:
            yield "", f"a target of kind {kind} needs {key}"
    if kind is TargetKind.PING and not given & {"url", "heartbeat"}:
        yield "", "a target of kind ping needs url or heartbeat"
    if kind is TargetKind.PING and "url" not in given:
        for key in sorted(given & {"start", "fail"}):
            yield key, "it goes together with url"
    if "every" in given and "heartbeat" not in given:
        yield "every", "it goes together with heartbeat"
    if ("user" in given) != ("password" in given):
        yield "user" if "user" in given else "password", "user and password go together"


Targets = Mapping[str, NotifyTarget]
"""Those of a configuration file, by name."""
