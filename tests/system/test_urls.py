"""Runs at servers that are URLs, killed at random moments: each row has one result, and nothing is executed again but
what failed or was in doubt.
"""

import json
import random
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.system.emulators import emulated
from tests.system.model_server import STREAMED
from tests.system.processes import KEY, ROOT, SECONDS_MAX, Desk, lines_of

pytestmark = [pytest.mark.system, pytest.mark.slow]

OWN_KEY: Final = "sk-of-the-model-server"
PATIENCE_S: Final = 300.0
FAST: Final = ("--uncertain-after", "300ms", "--json", "--output", "results.jsonl")


@contextmanager
def model_server() -> Iterator[str]:
    """The URL of a server of a model, in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.system.model_server"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.stdin.close()
        process.wait(SECONDS_MAX)
        process.stdout.close()


@contextmanager
def load_balancer(desk: Desk, name: str) -> Iterator[str]:
    """The URL of the emulator, with the same server behind a load balancing endpoint of that name."""
    app = f"{Path(__file__).with_name('model_server.py')}:app"
    with emulated(desk, "--http-endpoint", f"{name}={app}", "--workers", "4", "--key", KEY, within_s=PATIENCE_S) as url:
        yield url


def seen(url: str) -> dict[str, Any]:
    """What the server at `url` says that it has done."""
    request = urllib.request.Request(f"{url}/seen", headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request, timeout=SECONDS_MAX) as answer:
        told: dict[str, Any] = json.load(answer)
    return told


def killed(desk: Desk, url: str, command: tuple[str, ...], *, rows: int, kills: int, environ: Mapping[str, str]) -> Any:
    """Runs the command to its end in spite of kills, each once the server has executed a random number of rows."""
    chance = random.Random(rows)
    for moment in sorted(chance.sample(range(rows // 20, rows * 3 // 4), kills)):
        program = desk.start(*command, environ=environ, within_s=PATIENCE_S)
        while len(seen(url)["executed"]) < moment:
            assert not program.is_over, program.ended()
        program.kill()
    ended = desk.start(*command, environ=environ, within_s=PATIENCE_S).ended()
    assert ended.exit_code == 0, ended
    return ended.summary


def check(desk: Desk, url: str, *, rows: int) -> None:
    """Each row has one result, and was executed no more often than the ledger thinks."""
    found = desk.rows()
    assert [row["custom_id"] for row in found] == [f"row-{n}" for n in range(rows)]
    assert desk.rows("results.jsonl.errors.jsonl") == []
    executed = seen(url)["executed"]
    assert len(executed) == rows
    too_often = [row for n, row in enumerate(found) if executed[str(n)] > row["paid_at_most"]]
    assert too_often == []
    again = sum(row["paid_at_most"] > 1 for row in found)
    assert again < rows * 8 // 50 + 900, "of fifty three were executed for nothing, and at a kill some are under way"


def test_a_thousand_requests_of_openai_to_a_server_of_a_model(desk: Desk) -> None:
    desk.write(
        "batch.jsonl",
        lines_of(
            {
                "custom_id": f"row-{n}",
                "method": "POST",
                "url": "/v1/chat/completions",
                "body": {"model": "m", "n": n} | ({"stream": True} if n % 10 == 9 else {}),
            }
            for n in range(1_000)
        ),
    )
    with model_server() as url:
        desk.write("orchestrator.toml", f'[endpoints."{url}/v1"]\nheaders = {{ Authorization = "env:MODEL_KEY" }}\n')
        command = ("run", "batch.jsonl", "--endpoint", f"{url}/v1", "--via", "openai", *FAST)
        killed(desk, url, command, rows=1_000, kills=4, environ={"MODEL_KEY": OWN_KEY})
        check(desk, url, rows=1_000)
        assert set(seen(url)["credentials"]) == {f"Bearer {OWN_KEY}"}
        streamed = desk.rows()[9]["output"]
        assert [piece["choices"][0]["delta"]["content"] for piece in streamed] == list(STREAMED)
        kept = b"".join(path.read_bytes() for path in desk.folder.glob("orchestrator.db*"))
        assert OWN_KEY.encode() not in kept + (desk.folder / "results.jsonl").read_bytes()
        assert KEY.encode() not in kept


def test_five_thousand_requests_to_a_load_balancing_endpoint(desk: Desk) -> None:
    desk.write("rows.jsonl", lines_of({"custom_id": f"row-{n}", "n": n} for n in range(5_000)))
    with load_balancer(desk, "captions") as service:
        url = f"{service}/lb/captions"
        command = (
            *(
                "run",
                "rows.jsonl",
                "--endpoint",
                url,
                "--serverless-url",
                service,
                "--via",
                "http",
                "--path",
                "/generate",
            ),
            *("--limit", "http=5000/10:64", *FAST),
        )
        killed(desk, url, command, rows=5_000, kills=6, environ={})
        check(desk, url, rows=5_000)
        assert set(seen(url)["credentials"]) == {f"Bearer {KEY}"}
