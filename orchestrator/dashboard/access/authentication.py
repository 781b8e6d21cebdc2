"""Who asks: by the session's cookie, by a proxy's header, by a program's key (bearer), or, without login, whoever
reaches us.
"""

from dataclasses import dataclass, field
from typing import Final

from starlette.requests import HTTPConnection

from orchestrator.clock import Clock
from orchestrator.core.service.addresses import is_loopback, leads_to_loopback
from orchestrator.dashboard.access.key_file import KeyFolder
from orchestrator.dashboard.access.tokens import Person, Tokens
from orchestrator.dashboard.access.wrong_key_limit import WrongKeys
from orchestrator.errors import UsageError
from orchestrator.ledger.actions.asker import user_name
from orchestrator.settings.addresses.ledger_address import LedgerAddress
from orchestrator.settings.monitoring.dashboard_settings import DashboardSettings

PROGRAM: Final = Person(name="a program", may_act=False)
_BEARER: Final = "bearer "


def refuse_unsafe(settings: DashboardSettings) -> None:
    """Raises `UsageError` for what would let more people in than was meant."""
    if settings.no_login and not is_loopback(settings.listen.host):
        raise UsageError(
            f"<setting no-login> lets whoever reaches {settings.listen} do everything; leave it out, or listen on"
            " 127.0.0.1"
        )
    if settings.no_login and settings.url is not None and not leads_to_loopback(settings.url):
        raise UsageError(
            "<setting no-login> and <setting url> exclude each other: whoever reaches that URL could do everything;"
            " have the proxy name who is signed in: <setting user-header>"
        )
    if settings.user_header is not None and not settings.proxies:
        raise UsageError("<setting user-header> needs <setting proxy>: from which address? Anybody could send it")
    if settings.user_header is None and (settings.proxies or settings.operators):
        raise UsageError("<setting proxy> and <setting operator> need <setting user-header>: which names people?")


@dataclass(kw_only=True, eq=False)
class Visitors:
    """Tells who asks."""

    settings: DashboardSettings
    folder: KeyFolder
    clock: Clock
    wrong_keys: WrongKeys
    cookie: str
    """What ours is called."""

    _signed: tuple[bytes, Tokens] | None = field(default=None, init=False)

    @property
    def tokens(self) -> Tokens:
        """What is signed with the key that is there now. Raises `StorageError` where none can be kept."""
        key = self.folder.key()
        if self._signed is None or self._signed[0] != key:
            self._signed = key, Tokens(key, self.clock)
        return self._signed[1]

    def person(self, request: HTTPConnection) -> Person | None:
        """Who it is; None for nobody whom we know. Raises `StorageError` as `tokens`."""
        found = self._by_proxy(request)
        if found is None and self.settings.no_login:
            return Person(name=user_name(), may_act=True)
        return found or self._by_cookie(request) or self._program(request)

    def may_act(self, person: Person | None) -> bool:
        """Whether that person may do anything but look."""
        return person is not None and person.may_act and not self.settings.read_only

    def _by_proxy(self, request: HTTPConnection) -> Person | None:
        header, peer = self.settings.user_header, request.client
        if header is None or peer is None or peer.host not in self.settings.proxies:
            return None
        name = request.headers.get(header, "").strip()
        operators = self.settings.operators
        return Person(name=name, may_act=not operators or name in operators) if name else None

    def _by_cookie(self, request: HTTPConnection) -> Person | None:
        cookie = request.cookies.get(self.cookie)
        return None if cookie is None else self.tokens.person_of_session(cookie)

    def _program(self, request: HTTPConnection) -> Person | None:
        given = request.headers.get("authorization", "")
        if not given.lower().startswith(_BEARER) or self.wrong_keys.are_too_many:
            return None
        if self.tokens.is_program_key(given[len(_BEARER) :].strip()):
            return PROGRAM
        self.wrong_keys.add()
        return None


def visitors_of(ledger: LedgerAddress, settings: DashboardSettings, clock: Clock) -> Visitors:
    """Those of the dashboard of that ledger. Raises `UsageError` for settings that would let anybody in, and
    `StorageError` where its key cannot be kept.
    """
    refuse_unsafe(settings)
    found = Visitors(
        settings=settings,
        folder=KeyFolder(ledger),
        clock=clock,
        wrong_keys=WrongKeys(clock),
        cookie=f"orchestrator-{settings.listen.port}",
    )
    if not settings.no_login:
        found.tokens  # noqa: B018  a key that cannot be kept is said before anybody asks
    return found
