"""Sends a target a message when somebody asks whether that reaches anybody."""

import secrets
from pathlib import Path

import msgspec

from orchestrator.api.messages.target_delivery import deliver
from orchestrator.client.notify.delivery import Outgoing
from orchestrator.core.pipelines.message_text import letter_of
from orchestrator.core.pipelines.notifications import iso, message_id
from orchestrator.core.text.name_match import nearest
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.views.flows import TestDelivery


async def send_test(
    name: str, connection: ConnectionSettings, dependencies: Dependencies | None = None
) -> TestDelivery:
    """Sends a target of the configuration file a message, now; nothing of it is kept. Raises `UsageError` where there
    is no such target.
    """
    given = dependencies or Dependencies()
    target = connection.targets.get(name)
    if target is None:
        near = nearest(name, sorted(connection.targets))
        there = f"did you mean {near}?" if near else f"there is {', '.join(connection.targets) or 'none'}"
        raise UsageError(f"there is no target {name:.60} in the configuration file; {there}")
    now = given.clock.now()
    said = {"type": "target.test", "timestamp": iso(now), "data": {"target": name, "commands": []}}
    body = msgspec.json.encode(said)
    of = f"test {secrets.token_hex(8)}"
    letter = letter_of(body, connection.dashboard_url)
    message = Outgoing(number=message_id(0, now, of), of=of, body=body, letter=letter, template=target.template)
    came = await deliver(target, "test", message, given, folder=Path.cwd())
    return TestDelivery(target=name, kind=target.kind, problem=came.problem)
