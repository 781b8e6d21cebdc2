"""Where the ledger is on a server, no secret is in a dump of it, in the server's log, or seen in what it is at."""

import asyncio
import re
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import asyncpg
import pytest

from tests.postgres.server import data_of, dumped, server_url
from tests.system.processes import FAST, KEY, Desk, Service, lines_of, looks
from tests.system.sweep import Sweep

pytestmark = [pytest.mark.system, pytest.mark.slow]

JOBS: Final = 40
ROLE: Final = "sweeper"
PASSWORD: Final = "server-password-of-the-sweep"
WEBHOOK_KEY: Final = "5e7a" * 16
STORE_ID, STORE_SECRET = "AKIASWEEPSWEEPSWEEP", "store-secret-of-the-sweep"

KINDS: Final[tuple[dict[str, object], ...]] = (
    {"failures": 9},
    {"reject": True},
    {"tells_all": True},
    {"tells_all": True, "padding": "p" * 10_000, "filler": 10_000},
)
"""Jobs that fail, that are refused by an answer that repeats the whole request, and that give it back as their output, in
a few bytes or in so many that they are packed.
"""

DOES: Final = "SELECT application_name, query FROM pg_stat_activity WHERE datname = 'ledger'"
PACKED: Final = re.compile(rb"\\x([0-9a-f]{16,})")


async def made(server: str) -> None:
    """A database whose role has a password, which it tells the server as it is; all that is asked there is in the log."""
    admin = await asyncpg.connect(server)
    await admin.execute(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
    await admin.execute(f"CREATE DATABASE ledger OWNER {ROLE}")
    await admin.execute("ALTER SYSTEM SET log_statement = 'all'")
    await admin.execute("ALTER SYSTEM SET log_parameter_max_length_on_error = -1")
    admitted = data_of(server) / "pg_hba.conf"
    admitted.write_text(f"local ledger {ROLE} password\n{admitted.read_text()}")
    await admin.execute("SELECT pg_reload_conf()")
    await admin.close()


async def seen(server: str, is_over: Callable[[], bool]) -> set[str]:
    """What the server was seen at in the ledger, and for whom, until `is_over`."""
    admin = await asyncpg.connect(server)
    found = set[str]()
    for _ in looks():
        found |= {f"{row['application_name']}: {row['query']}" for row in await admin.fetch(DOES)}
        if is_over():
            break
    await admin.close()
    return found


def unpacked(text: bytes) -> bytes:
    """All that is in it in hexadecimal, and that unpacked where it is packed."""
    found = [bytes.fromhex(digits[: len(digits) // 2 * 2].decode()) for digits in PACKED.findall(text)]
    for content in list(found):
        try:
            found.append(zlib.decompress(content))
        except zlib.error:
            continue
    return b"\n".join(found)


def test_no_secret_is_in_a_dump_of_the_ledger_in_the_servers_log_or_in_what_it_is_seen_at(
    desk: Desk, service: Service, tmp_path: Path
) -> None:
    config = {"accessId": "env:S3_ID", "accessSecret": "env:S3_SECRET", "bucketName": "b", "endpointUrl": "http://s3"}
    rows = [
        {"custom_id": f"row-{n}", "input": {"n": n} | KINDS[n % len(KINDS)], "s3Config": config} for n in range(JOBS)
    ]
    desk.write("in.jsonl", lines_of(rows))
    with server_url(tmp_path, is_durable=True) as server:
        asyncio.run(made(server))
        environ = {
            "S3_ID": STORE_ID, "S3_SECRET": STORE_SECRET, "PGPASSWORD": PASSWORD, "ORCHESTRATOR_WEBHOOK_KEY": WEBHOOK_KEY,
            "ORCHESTRATOR_LEDGER": f"postgresql://{ROLE}@/ledger?host={data_of(server)}",
            "XDG_STATE_HOME": str(desk.folder / "state"),
        }  # fmt: skip
        program = desk.start(
            "run", "in.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "out.jsonl",
            "--allow-env", "S3_*", "--max-attempts", "1", "--listen", "127.0.0.1:0", *FAST, environ=environ,
        )  # fmt: skip
        at = asyncio.run(seen(server, lambda: program.is_over))
        assert program.ended().exit_code == 1
        sweep = Sweep()
        ledger = server.replace("/postgres?", "/ledger?")
        for place, content in {"dump": dumped(ledger), "log": (data_of(server) / "log").read_bytes()}.items():
            sweep.add(place, content)
            sweep.add(f"values of the {place}", unpacked(content))
        sweep.add("what it was seen at", *at)

    assert service.counted("hooks_taken") > 0
    assert service.counted("accepted") == JOBS // 4 * 3
    assert len(desk.rows("out.jsonl")) == JOBS // 2
    for known, places in {
        "orchestrator ": ["what it was seen at"],
        "UPDATE writers": ["log"],
        "row-7": ["dump", "log"],
        "pppppp": ["values of the dump", "values of the log"],
        "bad request: ": ["dump"],
    }.items():
        assert set(places) <= set(sweep.found(known, lambda _: True)), known
    secrets: dict[str, str | bytes] = {
        "the API key": KEY, "a value of env:": STORE_SECRET, "another": STORE_ID, "the server's password": PASSWORD,
        "the webhook key": bytes.fromhex(WEBHOOK_KEY), "the webhook key as it is given": WEBHOOK_KEY,
    }  # fmt: skip
    assert {what: found for what, secret in secrets.items() if (found := sweep.found(secret, lambda _: True))} == {}
