"""Brings a message to a target of the configuration file, each kind in its own way."""

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from orchestrator.api.messages.subprocesses import carry_out
from orchestrator.api.messages.target_secrets import SecretMissing, key_of, secret_of, url_of
from orchestrator.client.notify import discord, slack, teams
from orchestrator.client.notify.dead_man_switch import PLAIN_TEXT, ping_body, ping_url
from orchestrator.client.notify.delivery import TAKEN, UNWANTED, Delivery, Outgoing, failed, posted
from orchestrator.client.notify.mail import MailRoute
from orchestrator.client.notify.webhook import post_webhook
from orchestrator.engine.flows.command_output import CommandFailed
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.settings.monitoring.notify_targets import DEFAULT_PORTS, PING_NEWS, NotifyTarget, TargetKind

COMMAND_S_MAX: Final = 60.0
"""So long a command may take."""

_CHAT: Final = {
    TargetKind.SLACK: slack.slack_body,
    TargetKind.DISCORD: discord.discord_body,
    TargetKind.TEAMS: teams.teams_body,
}
_ADDED: Final = {"start": "/start", "fail": "/fail", "url": ""}


async def deliver(
    target: NotifyTarget, news: str, message: Outgoing, dependencies: Dependencies, *, folder: Path
) -> Delivery:
    """Sends it once, where the target is told of that; a command runs in `folder`."""
    if not target.wants(news):
        return UNWANTED
    try:
        return await _DELIVERED[target.kind](target, news, message, dependencies, folder)
    except SecretMissing as error:
        return failed(str(error))


async def _by_webhook(
    target: NotifyTarget, _news: str, message: Outgoing, dependencies: Dependencies, _folder: Path
) -> Delivery:
    assert target.url is not None
    environ = dependencies.environ
    url, key = url_of(target.url, environ), key_of(target.secret, environ)
    return await post_webhook(url, key, message, dependencies.post_hook, dependencies.clock)


async def _by_chat(
    target: NotifyTarget, _news: str, message: Outgoing, dependencies: Dependencies, _folder: Path
) -> Delivery:
    assert target.url is not None
    url, body = url_of(target.url, dependencies.environ), _CHAT[target.kind](message)
    return await posted(url, body, dependencies.post_hook, dependencies.clock)


async def _by_ping(
    target: NotifyTarget, news: str, message: Outgoing, dependencies: Dependencies, _folder: Path
) -> Delivery:
    what = PING_NEWS[news]
    own = {"start": target.start, "fail": target.fail}.get(what)
    if own is not None:
        url = url_of(own, dependencies.environ)
    elif target.url is not None:
        url = ping_url(url_of(target.url, dependencies.environ), _ADDED[what], message.of)
    else:
        assert target.heartbeat is not None  # one that has nothing else wants a test and no news
        url = url_of(target.heartbeat, dependencies.environ)
    return await posted(url, ping_body(message), dependencies.post_hook, dependencies.clock, PLAIN_TEXT)


async def ping_alive(target: NotifyTarget, body: bytes, dependencies: Dependencies) -> Delivery:
    """Asks once for what is asked for while a process works; `body` says on what, for who looks there."""
    assert target.heartbeat is not None
    try:
        url = url_of(target.heartbeat, dependencies.environ)
    except SecretMissing as error:
        return failed(str(error))
    return await posted(url, body, dependencies.post_hook, dependencies.clock, PLAIN_TEXT)


async def _by_mail(
    target: NotifyTarget, _news: str, message: Outgoing, dependencies: Dependencies, _folder: Path
) -> Delivery:
    assert target.server is not None
    assert target.sender is not None
    bare = target.server.rsplit(":", 1) if not target.server.endswith("]") else [target.server]
    route = MailRoute(
        host=bare[0].strip("[]"),
        port=int(bare[1]) if len(bare) > 1 else DEFAULT_PORTS[target.security],
        security=target.security,
        user=target.user,
        password=None if target.password is None else secret_of(target.password, dependencies.environ),
        sender=target.sender,
        to=target.to,
    )
    return await dependencies.send_mail(route, message, dependencies.clock.now())


async def _by_command(
    target: NotifyTarget, _news: str, message: Outgoing, dependencies: Dependencies, folder: Path
) -> Delivery:
    return await commanded(target.command, message.body, folder, dependencies.environ)


_DELIVERED: Final = {
    TargetKind.WEBHOOK: _by_webhook,
    **dict.fromkeys(_CHAT, _by_chat),
    TargetKind.PING: _by_ping,
    TargetKind.EMAIL: _by_mail,
    TargetKind.COMMAND: _by_command,
}


async def commanded(
    command: Sequence[str],
    body: bytes,
    folder: Path,
    environ: Mapping[str, str],
    *,
    within_s: float = COMMAND_S_MAX,
) -> Delivery:
    """Has a command take a message, on its standard input."""
    with tempfile.TemporaryFile() as given:  # no pipe: what it does not read breaks nothing
        given.write(body + b"\n")
        given.seek(0)
        try:
            await carry_out(
                command,
                told=f"the command {command[0]}",
                folder=folder,
                environ=environ,
                given=given,
                within_s=within_s,
            )
        except CommandFailed as error:
            return failed(str(error))
    return TAKEN
