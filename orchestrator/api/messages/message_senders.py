"""Tells people of flows, schedules and runs: a target of the configuration file, a URL, or a command."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote, urlencode

from msgspec.structs import replace

from orchestrator.api.messages.target_delivery import COMMAND_S_MAX, commanded, deliver, ping_alive
from orchestrator.api.messages.target_secrets import SecretMissing, is_program, key_of, url_of
from orchestrator.client.notify.delivery import Delivery, Outgoing, failed
from orchestrator.client.notify.webhook import post_webhook
from orchestrator.core.pipelines.flow_paths import moment
from orchestrator.core.pipelines.message_text import letter_of
from orchestrator.core.pipelines.notifications import message_id
from orchestrator.core.pipelines.pipeline import Pipeline
from orchestrator.core.pipelines.placeholders import expanded, variables
from orchestrator.core.pipelines.receivers import Receiver, receivers_of_pipeline
from orchestrator.core.service.s3_config import REFERENCE
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.ledger.flows.outbox import Message, Notification
from orchestrator.ledger.flows.run_outbox import RunMessage
from orchestrator.settings.addresses.ledger_address import LedgerAddress, folder_of
from orchestrator.settings.command_names import ledger_words, message_with_commands
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.words_and_defaults import LEDGER_DEFAULT


class MessageSender:
    """Of one ledger: how a process that has that configuration sends what is owed there."""

    def __init__(self, ledger: LedgerAddress, connection: ConnectionSettings, dependencies: Dependencies) -> None:
        self._ledger, self._connection, self._dependencies = ledger, connection, dependencies

    async def tell(self, told: Notification, pipeline: Pipeline) -> Delivery:
        """Sends one of a flow or a schedule."""
        message = self._outgoing(told, told.flow or pipeline.name, _find(told.flow))
        if told.target:
            receivers = receivers_of_pipeline(pipeline.notify)
            return await self._to_target(told.target, told.news, message, Path(pipeline.folder), receivers)
        notify = pipeline.notify
        if notify is None or (notify.url is None and not notify.command):
            return Delivery(problem="its pipeline tells nobody any more", is_wanted=False)
        if notify.url is None:
            return await piped(told, pipeline, message.body, self._dependencies.environ)
        try:
            key = key_of(notify.secret, self._dependencies.environ)
        except SecretMissing as error:
            return failed(f"the secret of [notify] cannot be used: {error}")
        return await self._posted(notify.url, key, message)

    async def tell_of_run(self, told: RunMessage) -> Delivery:
        """Sends one of a single run, whose command runs in the folder of the ledger."""
        message = self._outgoing(told, f"run {told.run}", {"run": told.name})
        folder, environ = folder_of(self._ledger).absolute(), self._dependencies.environ
        if told.target and not self._is_program(told.target):
            return await self._to_target(told.target, told.news, message, folder, told.receivers)
        notify = told.target or told.notify
        if notify is None:
            return Delivery(problem="the run tells nobody any more", is_wanted=False)
        if REFERENCE.fullmatch(notify) is not None:
            try:
                return await self._posted(url_of(notify, environ), None, message)
            except SecretMissing as error:
                return failed(str(error))
        if "://" in notify.split(" ")[0]:
            return await self._posted(notify, None, message)
        return await commanded(shlex.split(notify), message.body, folder, {**environ, "ORCHESTRATOR_RUN": told.name})

    @property
    def heartbeats(self) -> Mapping[str, int]:
        """The targets that are to hear again and again that this process works: how often (microseconds), by name."""
        targets = self._connection.targets
        return {name: target.every_us for name, target in targets.items() if target.heartbeat is not None}

    async def beat(self, target: str) -> Delivery:
        """Has one of these hear it now."""
        body = f"works on {self._ledger.name}".encode()
        return await ping_alive(self._connection.targets[target], body, self._dependencies)

    def _is_program(self, name: str) -> bool:
        """A word alone is a target where the file has that, and else a program as it always was."""
        return is_program(name, self._connection.targets, self._dependencies.environ)

    async def _to_target(
        self, name: str, news: str, message: Outgoing, folder: Path, receivers: Sequence[Receiver]
    ) -> Delivery:
        """Where `receivers`, those of what it is of, say of what the target is told, it is, whatever it says itself."""
        target = self._connection.targets.get(name)
        if target is None:
            return failed(f"there is no target {name} in the configuration file of this process: write [notify.{name}]")
        given = replace(message, template=target.template)
        if any(each.target == name and news in each.on for each in receivers):
            target = replace(target, on=(news,))
        return await deliver(target, news, given, self._dependencies, folder=folder)

    async def _posted(self, url: str, key: bytes | None, message: Outgoing) -> Delivery:
        return await post_webhook(url, key, message, self._dependencies.post_hook, self._dependencies.clock)

    def _outgoing(self, told: Message, of: str, find: Mapping[str, str]) -> Outgoing:
        """The message, whose commands find the ledger wherever they are given, and its link what it is of."""
        words = ledger_words(self._ledger if self._ledger == LEDGER_DEFAULT else self._ledger.absolute())
        body = message_with_commands(told.body, words)
        return Outgoing(
            number=message_id(told.id, told.owed_at, of), of=of, body=body, letter=letter_of(body, self._link(find))
        )

    def _link(self, find: Mapping[str, str]) -> str:
        base = self._connection.dashboard_url
        return f"{base.rstrip('/')}/find?{urlencode(find, quote_via=quote)}" if base and find else ""


async def piped(
    told: Notification,
    pipeline: Pipeline,
    body: bytes,
    environ: Mapping[str, str],
    *,
    within_s: float = COMMAND_S_MAX,
) -> Delivery:
    """Has the pipeline's command take one, on its standard input."""
    assert pipeline.notify is not None
    nothing = moment(pipeline, told.owed_at)  # braces that mean themselves are all that there are
    command = [expanded(each, nothing, {}) for each in pipeline.notify.command]
    given = dict(environ)
    if told.fire_at is not None:
        given |= variables(moment(pipeline, told.fire_at, told.again or 1))
    return await commanded(command, body, Path(pipeline.folder), given, within_s=within_s)


def _find(flow: str | None) -> Mapping[str, str]:
    return {} if flow is None else {"flow": flow}
