"""The settings of what an account has beside its jobs."""

import msgspec

from orchestrator.core.service.account_interfaces import Interface
from orchestrator.settings.structs import BASE_URL_DEFAULT, GRAPHQL_URL_DEFAULT, KeyPlace


class AccountSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Where the parts of the service are that an account has, and how they are spoken to."""

    base_url: str = BASE_URL_DEFAULT
    team: str | None = None
    graphql_url: str = GRAPHQL_URL_DEFAULT
    graphql_key: KeyPlace = "query"
    interface: Interface = Interface.AUTO
