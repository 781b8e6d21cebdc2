"""`orchestrator doctor` beside a real process, a real service and a real listener."""

import json
import socket

import pytest

from tests.system.processes import FAST, Desk, Service
from tests.system.test_full_disk import files_up_to

pytestmark = pytest.mark.system

JOBS = 20


@pytest.mark.slow
def test_webhooks_that_lead_nowhere_a_disk_that_fills_up_and_nobody_at_work(desk: Desk, service: Service) -> None:
    service.change(hold=True)
    desk.inputs(JOBS)
    run = ("run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, *FAST, "--listen")
    program = desk.start(*run, "127.0.0.1:0")
    service.wait("accepted", JOBS)
    well = desk.call("doctor", "--json")
    assert (well.exit_code, json.loads(well.stdout)["findings"], json.loads(well.stdout)["runs"]) == (0, [], 1)
    size = (desk.folder / "orchestrator.db").stat().st_size
    full = desk.call("doctor", before=files_up_to(size + 1_000_000))
    assert full.exit_code == 1
    assert full.stdout.startswith("orchestrator.db: the disk of this ledger is nearly full\n")
    program.kill()

    nobody = desk.call("doctor", "prompts")
    assert nobody.exit_code == 1
    assert nobody.stdout.startswith("prompts: nobody works on this ledger: nothing is sent or collected\n")

    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = f"http://127.0.0.1:{taken.getsockname()[1]}/x"
    program = desk.start(*run, "127.0.0.1:0", "--webhook-url", closed)
    desk.until_heartbeat(closed)
    lost = desk.call("doctor")
    assert lost.exit_code == 1
    assert lost.stdout.startswith(f"{closed}: the webhook URL cannot be reached\n")
    program.kill()
