"""A plan of a run on pods: how many, how soon, how fast by what was seen, and at which price.

Time is that of `tests.simulation`.
"""

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from orchestrator.api.planning.plan import plan
from orchestrator.cli.runs.plan import plan_lines
from orchestrator.core.planning.plan_types import Plan
from orchestrator.settings.command_requests import PlanFigures, PlanRequest
from tests.engine.pods.workplace import TEMPLATE, Workplace

FIGURES = PlanFigures()


def planned(place: Workplace, jobs: int = 400, figures: PlanFigures = FIGURES, **settings: Any) -> Plan:
    request = PlanRequest(run=place.request(jobs, "next", **settings), figures=figures)
    found: Plan = place.world(lambda: plan(request, dependencies=place.dependencies))
    return found


def test_of_pods_that_nobody_has_had_the_start_is_assumed_and_the_catalog_tells_the_price(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    found = planned(place, figures=PlanFigures(execution_us=2_000_000))
    assert found.pods is not None
    assert (found.pods.count, found.pods.start_s, found.pods.start_from) == (2, 180.0, "assumed")
    assert (found.pods.price_per_hour, found.pods.price_from) == (1.0, "as the catalog says of NVIDIA L4")
    assert found.workers_from == "95 at once at each of 2 pods, as the limit allows"
    assert place.pods == {}
    assert [*plan_lines(found)][2] == "  pods: 2 of vllm, ready in about 3 min, assumed"
    given = planned(place, figures=PlanFigures(execution_us=2_000_000, start_us=60_000_000))
    assert given.pods is not None
    assert (given.pods.start_s, given.pods.start_from) == (60.0, "as given")


def test_what_pods_did_before_tells_of_those_to_come_and_the_file_tells_the_price(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    place.world(place.carry_out)
    found = planned(place)
    assert found.pods is not None
    assert found.execution_s is not None
    assert (found.executions_known, round(found.execution_s)) == (40, 2)
    assert 5 <= found.pods.start_s < 20
    assert found.pods.start_from == "as the latest 2 took"
    assert found.pods.price_per_hour == 1.0
    assert found.workers_from.endswith("at once at each of 2 pods, as was seen")
    assert found.finish_s is not None
    assert found.cost is not None
    assert abs(found.cost.likely - 2 * 1.0 * found.finish_s / 3600) < 0.001
    said = planned(place, jobs=1, pod_template=replace(TEMPLATE, price_per_hour=0.7))
    assert said.pods is not None
    assert (said.pods.count, said.pods.price_per_hour, said.pods.price_from) == (1, 0.7, "as the pod template says")


def test_where_nobody_tells_the_price_it_is_said_where_it_can_be(tmp_path: Path) -> None:
    place = Workplace(tmp_path)
    unknown = replace(TEMPLATE, gpu="NVIDIA XYZ")
    found = planned(place, figures=PlanFigures(execution_us=2_000_000), pod_template=unknown)
    told = "  cost: not known; price-per-hour in [pod-templates.vllm] says what an hour of a pod costs"
    assert told in [*plan_lines(found)]
    on_cpus = replace(TEMPLATE, gpu=None, cpu="cpu3c", vcpus=4)
    priced = planned(place, figures=PlanFigures(execution_us=2_000_000), pod_template=on_cpus)
    assert priced.pods is not None
    assert priced.pods.price_from == "as the catalog says of 4 vCPUs of cpu3c"
    assert "  price: 0.12 for an hour of a pod, as the catalog says of 4 vCPUs of cpu3c" in [*plan_lines(priced)]
