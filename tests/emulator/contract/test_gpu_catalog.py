"""What there is to be had, versions and builds of an endpoint, by REST v2; and what is not served, by its name."""

import pytest

from tests.emulator.account_api.test_rest_v2 import ENDPOINT, V2

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(("kind", "key"), [("gpus", "gpus"), ("cpus", "cpus"), ("datacenters", "dataCenters")])
async def test_each_list_of_the_catalog_has_things_that_can_be_asked_for_alone(kind: str, key: str) -> None:
    v2 = V2()
    status, answer = await v2("GET", f"/catalog/{kind}")
    assert (status, answer.keys()) == (200, {key})
    for thing in answer[key]:
        assert await v2("GET", f"/catalog/{kind}/{thing['id']}") == (200, thing)
    assert (await v2("GET", f"/catalog/{kind}/none"))[0] == 404
    assert (await v2("POST", f"/catalog/{kind}"))[0] == 405
    status, refused = await v2("GET", f"/catalog/{kind}?include=AVAILABILITY&product=POD")
    assert (status, refused["detail"]) == (400, "the emulator does not know what is available: leave `include` out")
    status, refused = await v2("GET", f"/catalog/{kind}?product=POD")
    assert (status, refused["detail"]) == (400, "`product` needs `include`")


async def test_data_centers_are_chosen_by_region() -> None:
    v2 = V2()
    for regions, named in (("EUROPE", 2), ("EUROPE,NORTH_AMERICA", 4), ("MARS", 0)):
        _, answer = await v2("GET", f"/catalog/datacenters?regions={regions}")
        assert len(answer["dataCenters"]) == named


async def test_a_release_is_made_by_another_image_or_variable_and_by_nothing_else() -> None:
    v2 = V2()
    made = await v2.made("/serverless", ENDPOINT)
    path = f"/serverless/{made['id']}"
    await v2("PATCH", path, {"workers": {"max": 5}})
    await v2("PATCH", path, {"image": "me/worker:2"})
    await v2("PATCH", path, {"env": {"A": "1"}})
    _, answer = await v2("GET", f"{path}/releases")
    assert [[change["field"] for change in each["diff"]] for each in answer["releases"]] == [
        ["env"],
        ["image"],
        ["image", "args", "env"],
    ]
    assert answer["releases"][1]["diff"] == [{"field": "image", "old": "me/worker:1", "new": "me/worker:2"}]
    assert [each["version"] for each in answer["releases"]] == [3, 2, 0]
    assert answer["rollout"] == {
        "inProgress": False,
        "workersOnLatest": 0,
        "workersTotal": 0,
        "percentOnLatest": 100,
    }
    assert await v2("GET", f"{path}/builds") == (
        200,
        {"builds": [], "pagination": {"nextCursor": None, "hasNextPage": False}},
    )
    assert (await v2("GET", f"{path}/builds/b"))[0] == 404
    await v2("DELETE", path)
    for suffix in ("releases", "builds", "builds/b"):
        assert (await v2("GET", f"{path}/{suffix}"))[1]["detail"] == "endpoint not found"
