"""A webhook gets the JSON itself, by Standard Webhooks (standardwebhooks.com), signed where there is a secret."""

from orchestrator.client.http.posts import PostNotification
from orchestrator.client.notify.delivery import Delivery, Outgoing, posted
from orchestrator.clock import Clock
from orchestrator.core.pipelines.notifications import headers


async def post_webhook(
    url: str, key: bytes | None, message: Outgoing, post: PostNotification, clock: Clock
) -> Delivery:
    """Sends it once, signed by `key` where there is one."""
    sent = headers(message.number, at=clock.now(), body=message.body, key=key)
    return await posted(url, message.body, post, clock, sent)
