"""The ids of endpoints by their names, as the account's REST interfaces have them."""

from contextlib import suppress

from orchestrator.account.endpoints.endpoints import Endpoints
from orchestrator.account.endpoints.worker_bounds import endpoints_at
from orchestrator.account.name_lookup import UnknownNameError, id_of
from orchestrator.client import RefusedError, Service
from orchestrator.errors import NotSent, StoppedError, Unanswered, UsageError


class EndpointIdLookup:
    """Those of the account's endpoints."""

    def __init__(self, service: Service, rest_url: str) -> None:
        """As `EndpointBounds`."""
        self._service = service
        self._endpoints = endpoints_at(service, rest_url)

    async def of(self, given: str) -> str:
        """As `find_endpoint_id`."""
        return await find_endpoint_id(given, self._endpoints, self._service)


async def find_endpoint_id(given: str, endpoints: Endpoints, service: Service) -> str:
    """The id of the endpoint that is called `given`, or has that id. Raises `UsageError`, and `StoppedError` where
    nobody can say.

    What the account does not have may still be an id: of an endpoint that is everybody's, or of an emulator's.
    """
    try:
        return id_of("endpoint", given, await endpoints.list())
    except (UnknownNameError, RefusedError) as error:
        why = error
    except (NotSent, Unanswered) as error:
        raise StoppedError(str(error)) from None
    with suppress(RefusedError, UsageError, NotSent, Unanswered):
        await service.endpoint(given).health()
        return given
    if isinstance(why, UnknownNameError):
        raise why
    raise StoppedError(f"the endpoint {given:.80}: {why}; the endpoint's id needs no list") from None
