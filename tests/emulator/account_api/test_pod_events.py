"""What happens to pods by itself, asked for by HTTP: `/emulator/pods/{id}/{event}`."""

from typing import Any

import httpx
import pytest

from tests.emulator.emulators import KEY, emulator

pytestmark = pytest.mark.anyio

POD = {"name": "p", "image": "i", "gpu": {"id": "NVIDIA L4", "count": 1}}


async def test_a_pod_fails_ends_and_becomes_a_member_of_a_cluster_by_request() -> None:
    app = emulator().app
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://emulator", headers=KEY) as http:

        async def pod(pod_id: str) -> Any:
            return (await http.get(f"/v2/pods/{pod_id}")).json()

        made = [(await http.post("/v2/pods", json=POD)).json()["id"] for _ in range(3)]
        assert (await http.post(f"/emulator/pods/{made[0]}/fail")).status_code == 204
        assert ((await pod(made[0]))["status"], (await pod(made[0]))["actions"]) == ("ERROR", ["start", "terminate"])
        assert (await http.post(f"/emulator/pods/{made[1]}/exit")).status_code == 204
        assert (await pod(made[1]))["status"] == "EXITED"
        joined = await http.post(f"/emulator/pods/{made[2]}/join", json={"id": "c1", "rank": 0})
        assert joined.status_code == 204
        assert (await pod(made[2]))["cluster"] == {"id": "c1", "rank": 0}
        assert (await http.delete(f"/v2/pods/{made[2]}")).status_code == 409
        assert [each["id"] for each in (await http.get("/v2/pods")).json()["pods"]] == made[1::-1]


@pytest.mark.parametrize(
    ("path", "body", "status"), [("none/fail", b"", 404), ("P/join", b"[]", 400), ("P/eat", b"", 404)]
)
async def test_what_cannot_happen_is_refused(path: str, body: bytes, status: int) -> None:
    app = emulator().app
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://emulator", headers=KEY) as http:
        pod_id = (await http.post("/v2/pods", json=POD)).json()["id"]
        answer = await http.post(f"/emulator/pods/{path.replace('P', pod_id)}", content=body)
        assert answer.status_code == status
