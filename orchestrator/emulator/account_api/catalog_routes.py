"""The catalog by the REST interface v2: `/v2/catalog` (as observed). How much of anything is left is not emulated."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.routing import Route

from orchestrator.emulator.account_api.rest_v2 import RestV2, ok
from orchestrator.emulator.contract.answers import HttpAnswer, ProblemRefusal, not_found_problem
from orchestrator.emulator.contract.gpu_catalog import cpu_type_records, data_center_records, gpu_type_records

Shown = Mapping[str, object]

FREE_FILTERS: Final = frozenset({"regions", "networkVolumeTypes", "compliance", "globalNetwork"})
"""What `/catalog/datacenters` may be asked for; whatever else goes with `include` alone."""


def catalog_routes(rest: RestV2) -> list[Route]:
    """The routes of the catalog, of lists and of single things."""
    kinds: tuple[tuple[str, str, Callable[[Request], Sequence[Shown]]], ...] = (
        ("gpus", "gpus", lambda _: gpu_type_records()),
        ("cpus", "cpus", lambda _: cpu_type_records()),
        (
            "datacenters",
            "dataCenters",
            lambda request: data_center_records(
                tuple(filter(None, request.query_params.get("regions", "").split(",")))
            ),
        ),
    )
    return [
        rest.route(None, path, GET=(f"catalog {kind}", partial(_answer, kind, key, listed)))
        for kind, key, listed in kinds
        for path in (f"/v2/catalog/{kind}", f"/v2/catalog/{kind}/{{wanted:path}}")
    ]


async def _answer(
    kind: str, key: str, listed: Callable[[Request], Sequence[Shown]], request: Request, _account: str
) -> HttpAnswer:
    _check(kind, request)
    things, wanted = listed(request), request.path_params.get("wanted")
    if wanted is None:
        return ok({key: things})
    found = next((each for each in things if each["id"] == wanted), None)
    if found is None:
        raise not_found_problem()
    return ok(found)


def _check(kind: str, request: Request) -> None:
    """Raises Problem 400 for what is not emulated, and for a filter that goes with it alone."""
    asked = request.query_params.keys()
    if "include" in asked:
        raise ProblemRefusal(
            HTTPStatus.BAD_REQUEST, "the emulator does not know what is available: leave `include` out"
        )
    others = asked - FREE_FILTERS if kind == "datacenters" else asked
    if others:
        raise ProblemRefusal(HTTPStatus.BAD_REQUEST, f"`{min(others)}` needs `include`")
