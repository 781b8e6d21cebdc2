"""Where webhooks come in: the address they are sent to, and the server behind it."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from anyio.abc import TaskGroup
from msgspec.structs import asdict

from orchestrator.core.service.addresses import parse_address, path_prefix, webhook_base_url
from orchestrator.core.service.webhook_token import TOKEN_CHARS_MAX, hook_url
from orchestrator.engine.collecting.notice_desk import NoticeDesk
from orchestrator.engine.ports.dependencies import Dependencies, Listening
from orchestrator.settings.connection_settings import ConnectionSettings

if TYPE_CHECKING:
    from orchestrator.web.webhook_routes import Webhooks


class Webhook(NamedTuple):
    """How the service reaches us: the key of the tokens, and the base URL."""

    key: bytes
    base_url: str


class WebhookListener:
    """Bound at once, so that a port in use is found before anything is sent. Without `--listen`, and the `key` of the
    tokens, there is nothing. What webhooks tell goes to the `desk`.
    """

    def __init__(
        self,
        connection: ConnectionSettings,
        dependencies: Dependencies,
        *,
        desk: NoticeDesk,
        scrub: Callable[[bytes], bytes],
        key: bytes | None,
    ) -> None:
        self._desk = desk
        self._server: Listening | None = None
        self.webhook: Webhook | None = None
        """What the service is told, where it is told anything."""

        self.webhooks: Webhooks | None = None
        if connection.listen is not None and key is not None:
            self._bind(key, connection.listen, connection.webhook_url, dependencies, scrub)

    def _bind(
        self,
        key: bytes,
        listen: str,
        public_url: str | None,
        dependencies: Dependencies,
        scrub: Callable[[bytes], bytes],
    ) -> None:
        from orchestrator.web.application import listener_application  # noqa: PLC0415  no other run needs a web server
        from orchestrator.web.webhook_routes import Webhooks  # noqa: PLC0415

        public = None if public_url is None else webhook_base_url(public_url)
        prefix = path_prefix(public) if public else ""
        self.webhooks = Webhooks(key=key, sink=self._desk, clock=dependencies.clock, prefix=prefix, scrub=scrub)
        self._server = dependencies.listener(listener_application(self.webhooks), parse_address(listen))
        self.webhook = Webhook(key, public or webhook_base_url(self._server.url))

    @property
    def base_url(self) -> str | None:
        """What the URL of each webhook begins with."""
        return None if self.webhook is None else self.webhook.base_url

    def received(self) -> Mapping[str, int]:
        """How many webhooks came in so far, by what became of them; see `WebhookCounters`."""
        return {} if self.webhooks is None else asdict(self.webhooks.figures)

    @property
    def url_bytes(self) -> int:
        """How many bytes the URL of a webhook adds to a request, at most."""
        return 0 if self.webhook is None else len(hook_url(self.webhook.base_url, "0" * TOKEN_CHARS_MAX))

    async def serve(self, outer: TaskGroup) -> None:
        """Takes webhooks in `outer` from now on, until the very end, so that as few as possible are missed."""
        if self._server is not None:
            await outer.start(self._server.serve)
