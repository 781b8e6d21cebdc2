"""A ledger on a server of PostgreSQL, as a user has it: the same commands, the same files."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from typing import Any

import asyncpg
import pytest

from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from tests.postgres.databases import Databases
from tests.postgres.server import dumped
from tests.system.processes import FAST, Desk, Service, lines_of, looks

pytestmark = pytest.mark.system

SLOW = ("--limit", "run=50/1:10", "--limit", "status=2000/1:200")
"""Limits that leave time to do something meanwhile."""


@pytest.fixture
def ledger(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database in which there is no ledger yet."""
    with durable_databases.empty() as url:
        yield url


def without_ids(rows: list[Any]) -> list[Any]:
    return [row | {"job_id": ""} for row in rows]


def test_a_run_writes_the_same_files_as_with_a_ledger_in_a_file(desk: Desk, service: Service, ledger: str) -> None:
    rows = [*({"custom_id": f"row-{n}", "n": n} for n in range(60)), {"custom_id": "never", "n": 60, "failures": 9}]
    desk.write("prompts.jsonl", lines_of(rows))
    found = []
    for name, address in (("file", "l.db"), ("server", ledger)):
        ended = desk.call(
            "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--ledger", address,
            "--output", f"{name}.jsonl", "--max-attempts", "1", "--json", *FAST,
        )  # fmt: skip
        again = desk.call("results", "prompts", "--ledger", address, "--output", f"{name}-again.jsonl")
        assert (ended.exit_code, again.exit_code) == (1, 0), (ended, again)
        files = (f"{name}.jsonl", f"{name}.jsonl.errors.jsonl", f"{name}-again.jsonl")
        found.append((ended.summary["jobs"], [without_ids(desk.rows(file)) for file in files]))
    assert found[0] == found[1]
    assert len(found[0][1][0]) == 60
    assert service.counted("accepted") == 2 * 61


def rows_of(ledger: str, statement: str) -> Any:
    """What `statement` finds."""

    async def asked() -> Any:
        connection = await asyncpg.connect(ledger)
        found = await connection.fetch(statement)
        await connection.close()
        return found

    return asyncio.run(asked())


SERVES = ("serve",)
RUNS = ("run", "prompts.jsonl", "--endpoint", "ep1")


@pytest.mark.parametrize("command", [SERVES, pytest.param(RUNS, marks=pytest.mark.slow)])
def test_nobody_works_where_its_role_can_only_read_or_is_said_to_be_there(
    desk: Desk, service: Service, ledger: str, command: tuple[str, ...]
) -> None:
    assert desk.call("ledger", "init", ledger).exit_code == 0
    database = parse_ledger_url(ledger).database
    rows_of(ledger, f"ALTER ROLE CURRENT_USER IN DATABASE {database} SET default_transaction_read_only = on")
    desk.inputs(1)
    refused = desk.call(*command, "--serverless-url", service.url, "--ledger", ledger)
    assert refused.exit_code == 3, refused
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "it can only be read: a standby, or a role or database that is set so; name the primary" in refused.stderr
    assert rows_of(ledger, "SELECT name FROM processes UNION SELECT name FROM runs") == []
    assert service.counted("accepted") == 0


def remembered(desk: Desk, ledger: str) -> dict[str, str]:
    """The environment in which `ledger` is that of all commands, with a folder of state of its own."""
    return {"ORCHESTRATOR_LEDGER": ledger, "XDG_STATE_HOME": str(desk.folder / "state")}


def until_outstanding(desk: Desk, jobs: int, environ: dict[str, str]) -> Any:
    """How the only run stands, once a process has it and so many of its jobs are at the service."""
    for _ in looks():
        [run] = desk.call("status", "--json", environ=environ).summary
        if run["jobs"]["outstanding"] == jobs and run["held_by"]:
            return run
    raise AssertionError(f"never {jobs} at the service")


@pytest.mark.slow
def test_a_process_that_is_killed_has_sent_nothing_twice_and_another_one_goes_on(
    desk: Desk, services: Callable[..., Service], ledger: str
) -> None:
    service, environ = services(hold=True), remembered(desk, ledger)
    desk.inputs(100)
    command = (
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl", "--json",
        *FAST,
    )  # fmt: skip
    first = desk.start(*command, environ=environ)
    service.wait("accepted", 100)
    assert f"process {first.pid} on " in until_outstanding(desk, 100, environ)["held_by"]
    other = desk.call("ledger", "compact", environ=environ)
    assert other.exit_code == 4, other
    assert f"process {first.pid} on " in other.stderr
    assert "is working on this ledger" in other.stderr
    first.kill()

    service.change(hold=False)
    ended = desk.call(*command, environ=environ)
    assert ended.exit_code == 0, ended
    assert desk.ids() == [f"row-{n}" for n in range(100)]
    assert service.counted("accepted") == 100
    assert desk.call("verify", environ=environ).exit_code == 0


@pytest.mark.slow
def test_two_at_once_one_works_and_the_other_follows(desk: Desk, service: Service, ledger: str) -> None:
    environ = remembered(desk, ledger)
    for name in "ab":
        desk.inputs(100, f"{name}.jsonl", of=name)
    both = [
        desk.start(
            "run", f"{name}.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", f"{name}.out.jsonl",
            *FAST, environ=environ,
        )
        for name in "ab"
    ]  # fmt: skip
    assert [each.ended().exit_code for each in both] == [0, 0]
    assert [len(desk.rows(f"{name}.out.jsonl")) for name in "ab"] == [100, 100]
    assert service.counted("accepted") == 200


@pytest.mark.slow
def test_a_run_is_steered_and_followed_beside_the_process_that_serves_it(
    desk: Desk, services: Callable[..., Service], ledger: str
) -> None:
    service, environ = services(finish_after_s=(0.2, 0.4)), remembered(desk, ledger)
    desk.inputs(200)
    server = desk.start("serve", "--serverless-url", service.url, "--listen", "127.0.0.1:0", *SLOW, environ=environ)
    server.until_said("serving")
    started = desk.call(
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--detach", *SLOW, environ=environ
    )
    assert started.exit_code == 0, started
    follower = desk.start("results", "prompts", "--follow", environ=environ)
    for verb in ("pause", "unpause", "cancel"):
        if verb == "cancel":
            service.wait("accepted", 50)
        asked = desk.call(verb, "prompts", *(("--yes",) if verb == "cancel" else ()), environ=environ)
        assert asked.exit_code == 0, asked
    followed = follower.ended()
    [run] = desk.call("status", "prompts", "--json", environ=environ).summary
    jobs = run["jobs"]
    assert jobs["succeeded"] + jobs["cancelled"] == jobs["total"] == 200
    assert len(followed.stdout.splitlines()) == jobs["succeeded"]
    stopped = desk.call("stop", environ=environ)
    assert stopped.exit_code == 0, stopped
    assert server.ended().exit_code == 0
    assert (desk.folder / "state" / "orchestrator").stat().st_mode & 0o777 == 0o700


@pytest.mark.slow
def test_a_pipeline_is_applied_and_carried_out(desk: Desk, ledger: str) -> None:
    environ = remembered(desk, ledger)
    desk.write("handlers.py", "def same(job):\n    return dict(job['input'])\n")
    desk.write("in.jsonl", '{"custom_id": "r1", "n": 1}\n{"custom_id": "r2", "n": 2}\n')
    desk.write(
        "night.toml",
        'name = "night"\ninput = "in.jsonl"\n[schedule]\ncron = "30 2 * * *"\nzone = "Europe/Berlin"\n'
        '[stage.first]\nendpoint = "local:handlers.py:same"\n'
        '[stage.second]\nendpoint = "local:handlers.py:same"\noutput = "{fire:%Y-%m-%d}.jsonl"\n',
    )
    assert desk.call("apply", "night.toml", environ=environ).exit_code == 0
    ended = desk.call("trigger", "night", "--at", "2027-03-27T01:30:00Z", "--wait", environ=environ)
    assert ended.exit_code == 0, ended
    assert [row["output"] for row in desk.rows("2027-03-27.jsonl")] == [{"n": 1}, {"n": 2}]
    assert desk.call("tick", environ=environ).exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "code", "told"),
    [
        ("?host=/nowhere", 3, "cannot reach the ledger (No such file or directory)"),
        ("&schema=nowhere", 2, "there is no schema nowhere here"),
        ("&sslmode=on", 2, "sslmode is one of"),
    ],
)
def test_what_is_wrong_with_a_server_is_one_sentence_and_nothing_is_made(
    desk: Desk, ledger: str, changed: str, code: int, told: str
) -> None:
    desk.inputs(1)
    address = ledger.partition("?")[0] + changed if changed.startswith("?") else ledger + changed
    environ = remembered(desk, address) | {"PGPASSWORD": "hunter2"}
    for command in (("status",), ("run", "prompts.jsonl", "--endpoint", "ep1")):
        refused = desk.call(*command, environ=environ)
        assert refused.exit_code == code, refused
        assert told in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
        assert "hunter2" not in refused.stderr
    assert sorted(path.name for path in desk.folder.iterdir()) == ["prompts.jsonl"]


@pytest.mark.slow
def test_a_webhook_key_of_another_machine_is_refused_and_one_that_is_given_is_kept_out_of_the_ledger(
    desk: Desk, service: Service, ledger: str
) -> None:
    environ, key = remembered(desk, ledger), "5e" * 32
    desk.inputs(20)
    service.change(hold=True)
    command = (
        "run", "prompts.jsonl", "--endpoint", "ep1", "--serverless-url", service.url, "--output", "results.jsonl",
        "--listen", "127.0.0.1:0", *FAST,
    )  # fmt: skip
    first = desk.start(*command, environ=environ | {"ORCHESTRATOR_WEBHOOK_KEY": key})
    service.wait("accepted", 20)
    until_outstanding(desk, 20, environ)
    first.kill()
    assert not list((desk.folder / "state" / "orchestrator").glob("*.key"))
    dump = dumped(ledger)
    assert b"row-19" in dump
    assert not [spelled for spelled in (key.encode(), bytes.fromhex(key)) if spelled in dump]

    for given in ({}, {"ORCHESTRATOR_WEBHOOK_KEY": "6e" * 32}, {"ORCHESTRATOR_WEBHOOK_KEY": "short"}):
        refused = desk.call(*command, environ=environ | given)
        assert refused.exit_code == 2, refused
        assert "ORCHESTRATOR_WEBHOOK_KEY" in refused.stderr
        assert "6e6e" not in refused.stderr
    service.change(hold=False)
    assert desk.call(*command, environ=environ | {"ORCHESTRATOR_WEBHOOK_KEY": key}).exit_code == 0
    assert (len(desk.rows()), service.counted("accepted")) == (20, 20)


@pytest.mark.slow
def test_who_could_not_take_a_place_by_its_webhook_key_does_not_stand_by(
    desk: Desk, service: Service, ledger: str
) -> None:
    environ, listens = remembered(desk, ledger), ("serve", "--serverless-url", service.url, "--listen", "127.0.0.1:0")
    at_work = desk.start(*listens, environ=environ | {"ORCHESTRATOR_WEBHOOK_KEY": "5e" * 32})
    at_work.until_said("serving")
    refused = desk.call(*listens, environ=environ | {"ORCHESTRATOR_WEBHOOK_KEY": "6e" * 32})
    assert refused.exit_code == 2, refused
    assert "or of a process at work, are signed by another key than this machine has; copy it" in refused.stderr
    asked = desk.call("doctor", environ=environ | {"ORCHESTRATOR_WEBHOOK_KEY": "6e" * 32})
    assert "the webhook URL: " in asked.stdout
    assert "its webhooks are signed by another key than this machine has" in asked.stdout
    beside = desk.start(*listens, environ=environ | {"ORCHESTRATOR_WEBHOOK_KEY": "5e" * 32})
    beside.until_said("serving")
    at_work.signal(signal.SIGTERM)
    beside.until_said("schedules and flows: served by this process")
    beside.signal(signal.SIGTERM)
    assert [each.ended().exit_code for each in (at_work, beside)] == [0, 0]
