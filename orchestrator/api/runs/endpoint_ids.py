"""Names of endpoints in the place of their ids, as programs and pipelines give them: looked up once, before anything is
made of them. Ledgers only ever have ids.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
from msgspec.structs import replace

from orchestrator.api.runs.service_connection import connection_of
from orchestrator.core.jobs.escalation import EscalationRule, endpoints_named, with_ids
from orchestrator.core.pipelines.pipeline import Pipeline, Stage
from orchestrator.core.pools.member import MemberSettings
from orchestrator.core.service.url_endpoints import is_pods
from orchestrator.engine.hosting.worker_scaling import knows_account
from orchestrator.engine.ports.dependencies import Dependencies
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags, connection_settings, run_request, run_settings
from orchestrator.settings.configuration_file import ConfigurationFile, Given
from orchestrator.settings.connection_settings import PROFILE, ConnectionSettings
from orchestrator.settings.monitoring.notify_targets import Targets
from orchestrator.settings.monitoring.target_file import read_targets
from orchestrator.settings.parsers.name_parsers import is_endpoint_name
from orchestrator.settings.sources import KEPT_MEMBERS, choose, chosen_pool, is_pool


@dataclass(kw_only=True, eq=False)
class EndpointNames:
    """What the endpoints of an account are called. Each name is looked up once."""

    dependencies: Dependencies
    connection: ConnectionSettings | None = None
    """How the account is reached of which nothing else is said; None: as environment and configuration file say."""

    config: str | None = None
    """The configuration file, where it was named."""

    unknown: list[str] = field(default_factory=list)
    """What was taken for an id, since there was no API key to ask with."""

    _found: dict[tuple[str, str], str] = field(default_factory=dict)

    @property
    def targets(self) -> Targets:
        """Who can be told, by name. Raises `UsageError` for a configuration file that cannot be used."""
        if self.connection is not None:
            return self.connection.targets
        return read_targets(ConfigurationFile.at(self.config))

    async def id_of(self, given: str, told: Mapping[str, object] | None = None) -> str:
        """The id of the endpoint called `given`, or `given` where it is one. `told` is what else is said of where it
        is: a profile, a URL.

        Raises `UsageError` where none is called so, or several are, and `StoppedError` where nobody can say.
        """
        if not is_endpoint_name(given):
            return given
        connection = self._connection(told or {})
        url = connection.serverless_url
        if not knows_account(connection.rest_url, url):  # another service's, whose account nobody named
            return given
        if not connection.api_key:
            self.unknown.append(given)
            return given
        if (given, url) not in self._found:
            given_to = self.dependencies
            async with given_to.service(connection, given_to.clock) as service:
                self._found[given, url] = await given_to.account(service, connection.rest_url).id_of(given)
        return self._found[given, url]

    def _connection(self, told: Mapping[str, object]) -> ConnectionSettings:
        if self.connection is not None and not told:
            return self.connection
        environ = self.dependencies.environ
        return connection_of(choose({command_flags.CONFIG.name: self.config, **told}, environ), environ)

    async def in_rules(
        self, rules: tuple[EscalationRule, ...], told: Mapping[str, object] | None = None
    ) -> tuple[EscalationRule, ...]:
        """The rules of an escalation, with ids for names. Raises as `id_of`."""
        ids = {each: await self.id_of(each, told) for each in endpoints_named(rules)}
        return with_ids(rules, ids)

    async def in_members(self, members: Sequence[MemberSettings]) -> tuple[MemberSettings, ...]:
        """The members of a pool, with ids for names. Raises as `id_of`."""
        return tuple([replace(each, endpoint=await self.id_of(each.endpoint)) for each in members])

    async def in_pipeline(self, pipeline: Pipeline) -> Pipeline:
        """The same of all stages."""
        stages = []
        for stage in pipeline.stages:
            try:
                stages.append(await self._in_stage(stage))
            except UsageError as error:
                raise UsageError(f"{pipeline.name}: stage.{stage.name}: {error}") from None
        return msgspec.structs.replace(pipeline, stages=tuple(stages))

    async def _in_stage(self, stage: Stage) -> Stage:
        told = {each.name: stage.settings[each.key][-1] for each in _OF_PLACE if each.key in stage.settings}
        settings = dict(stage.settings)
        key = run_request.ENDPOINT.key
        if (texts := settings.get(key)) is not None:
            pool = (
                chosen_pool(ConfigurationFile.at(self.config), Given(tuple(texts), key), {}) if is_pool(texts) else None
            )
            endpoints = texts[-1:] if pool is None else pool.endpoints
            ids = [await self.id_of(each, told) for each in endpoints]
            settings[key] = (",".join(ids),)
            settings = {**({} if pool is None else {at: each.texts for at, each in pool.layer.items()}), **settings}
            if pool is not None and pool.members:
                members = [replace(each, endpoint=id_) for each, id_ in zip(pool.members, ids, strict=True)]
                settings[KEPT_MEMBERS] = (msgspec.json.encode(members).decode(),)
            if is_pods(settings[key][0]):
                choices = choose({run_request.ENDPOINT.name: settings[key][0], "config": self.config}, {})
                settings[run_request.POD_TEMPLATE.key] = (msgspec.json.encode(choices.pod_template).decode(),)
        if texts := settings.get(run_settings.ESCALATE.key):
            rules = run_settings.ESCALATE.value_type.read(texts)
            if any(map(is_endpoint_name, endpoints_named(rules))):
                settings[run_settings.ESCALATE.key] = tuple(
                    run_settings.ESCALATE.value_type.write(await self.in_rules(rules, told))
                )
        return stage if settings == stage.settings else msgspec.structs.replace(stage, settings=settings)


_OF_PLACE = (PROFILE, connection_settings.SERVERLESS_URL)
"""What a stage can say of where its endpoint is."""
