"""Where webhooks come in: the address they are sent to, and the server behind it."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from anyio.abc import TaskGroup

from orchestrator.core.service.addresses import parse_address, path_prefix, webhook_base_url
from orchestrator.core.service.webhook_token import TOKEN_CHARS_MAX, hook_url
from orchestrator.engine.collecting.webhook_inbox import WebhookInbox
from orchestrator.engine.hosting.endpoint_registry import Webhook
from orchestrator.engine.ports.dependencies import Dependencies, Listening
from orchestrator.ledger import webhook_key
from orchestrator.settings.connection_settings import ConnectionSettings

if TYPE_CHECKING:
    from orchestrator.web.webhook_routes import Webhooks


class WebhookListener:
    """Bound at once, so that a port in use is found before anything is sent. Without `--listen` there is nothing."""

    def __init__(
        self,
        ledger: Path,
        connection: ConnectionSettings,
        dependencies: Dependencies,
        *,
        sink: WebhookInbox,
        scrub: Callable[[bytes], bytes],
    ) -> None:
        self._server: Listening | None = None
        self.webhook: Webhook | None = None
        """What the service is told, where it is told anything."""

        self.webhooks: Webhooks | None = None
        if connection.listen is not None:
            self._bind(ledger, connection.listen, connection.webhook_url, dependencies, sink, scrub)

    def _bind(
        self,
        ledger: Path,
        listen: str,
        public_url: str | None,
        dependencies: Dependencies,
        sink: WebhookInbox,
        scrub: Callable[[bytes], bytes],
    ) -> None:
        from orchestrator.web.application import listener_application  # noqa: PLC0415  no other run needs a web server
        from orchestrator.web.webhook_routes import Webhooks  # noqa: PLC0415

        key = webhook_key(ledger)
        public = None if public_url is None else webhook_base_url(public_url)
        prefix = path_prefix(public) if public else ""
        self.webhooks = Webhooks(key=key, sink=sink, clock=dependencies.clock, prefix=prefix, scrub=scrub)
        self._server = dependencies.listener(listener_application(self.webhooks), parse_address(listen))
        self.webhook = Webhook(key, public or webhook_base_url(self._server.url))

    @property
    def base_url(self) -> str | None:
        """What the URL of each webhook begins with."""
        return None if self.webhook is None else self.webhook.base_url

    @property
    def url_bytes(self) -> int:
        """How many bytes the URL of a webhook adds to a request, at most."""
        return 0 if self.webhook is None else len(hook_url(self.webhook.base_url, "0" * TOKEN_CHARS_MAX))

    async def serve(self, outer: TaskGroup) -> None:
        """Takes webhooks from now on, for as long as `outer` lives."""
        if self._server is not None:
            await outer.start(self._server.serve)
