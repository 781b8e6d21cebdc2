"""What is packaged for several machines with one ledger: compose services, a drop-in for units of systemd, and their
variables.
"""

import asyncio
import configparser
import re
import shlex
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec
import pytest

from orchestrator.core.diagnosis.server_rules import CONNECTIONS_NEEDED
from orchestrator.settings.words_and_defaults import WEBHOOK_KEY_VARIABLE
from tests.postgres.databases import Databases
from tests.system.processes import ROOT, Desk, Program, Service, lines_of
from tests.system.test_packaging import analyzed, of_systemd

FOLDER: Final = ROOT / "packaging"
COMPOSE: Final = FOLDER / "compose" / "compose.yaml"
EXAMPLE: Final = FOLDER / "compose" / "several.env.example"
DROP_IN: Final = Path("orchestrator.service.d") / "several-machines.conf"
FOR_UNITS: Final = FOLDER / "systemd" / "several-machines.env.example"
LIMITS: Final = ("--limit", "run=20/1:10", "--limit", "status=2000/1:200")
"""Limits that leave time to stop one that serves."""

pytestmark = pytest.mark.system


@pytest.fixture
def ledger(durable_databases: Databases) -> Iterator[str]:
    """The URL of a database in which there is no ledger yet."""
    with durable_databases.empty() as url:
        yield url


class Composed:
    """The services of the file, their commands begun in the folder of `desk`, with a ledger at `ledger` and what is
    `filled_in`.
    """

    def __init__(self, desk: Desk, ledger: str, filled_in: dict[str, str]) -> None:
        self.services = services()
        self._desk, self._ledger = desk, ledger
        self._environ = {"XDG_STATE_HOME": str(desk.folder / "state"), **filled_in}

    def start(self, name: str, *words: str, **changed: str) -> Program:
        """Its command, or `words`; `changed`: instead of these words."""
        service = self.services[name]
        address = service["environment"]["ORCHESTRATOR_LEDGER"]
        command = [changed.get(word, word) for word in (words or service["command"])]
        return self._desk.start(
            *(self._ledger if word == address else word for word in command),
            environ={**self._environ, **service["environment"], "ORCHESTRATOR_LEDGER": self._ledger},
        )


def services() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.yaml.decode(COMPOSE.read_bytes())["services"]
    return found


def example() -> dict[str, str]:
    """The variables that are to be filled in, and those that may be."""
    lines = re.findall(r"^(?:# )?([A-Z_]+)=(.*)$", EXAMPLE.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(lines)


def of_header(verb: str) -> list[str]:
    """What the head of the file says to give that begins with `verb`, without what is read and written."""
    [found] = re.findall(
        rf"^#   docker compose run .* commands ({verb} [^<>\n]*)", COMPOSE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return shlex.split(found)


def test_what_the_services_are_made_of_is_there_and_nothing_is_open_to_others() -> None:
    found, text = services(), COMPOSE.read_text(encoding="utf-8")
    build = found["tables"]["build"]
    assert (COMPOSE.parent / build["context"]).resolve() == ROOT
    assert (ROOT / build["dockerfile"]).is_file()
    assert build["args"] == {"EXTRAS": "postgres"}
    assert {each["env_file"] for each in found.values()} == {EXAMPLE.stem}
    assert {name: each["ports"] for name, each in found.items() if "ports" in each} == {
        "dashboard": ["127.0.0.1:8901:8901"]
    }
    assert found["one"]["command"] == found["two"]["command"] == ["serve"]
    assert {"POSTGRES_PASSWORD", "PGPASSWORD", WEBHOOK_KEY_VARIABLE} <= set(example())
    assert not any(value for name, value in example().items() if name.endswith(("KEY", "PASSWORD")))
    assert f"install -m 600 {EXAMPLE.name} {EXAMPLE.stem}" in text


@pytest.mark.slow
def test_what_is_composed_works_and_one_that_serves_may_be_stopped(
    desk: Desk, services: Callable[..., Service], ledger: str
) -> None:
    service = services(finish_after_s=(0.1, 0.2))
    filled_in = {
        "ORCHESTRATOR_API_KEY": desk.environment()["ORCHESTRATOR_API_KEY"],
        "ORCHESTRATOR_LISTEN": "127.0.0.1:0",
        WEBHOOK_KEY_VARIABLE: "5e" * 32,
        "PGPASSWORD": "hunter2",
    }
    assert set(filled_in) < set(example())
    composed = Composed(desk, ledger, filled_in | {"ORCHESTRATOR_SERVERLESS_URL": service.url})
    made = composed.start("tables").ended()
    assert made.exit_code == 0, made
    one, dashboard = composed.start("one"), composed.start("dashboard", **{"0.0.0.0:8901": "127.0.0.1:0"})
    one.until_said("serving")
    two = composed.start("two")
    two.until_said("serving")
    dashboard.until_said("http://127.0.0.1:")

    words = ["ep1" if word == "ID" else word for word in of_header("run")]
    run = composed.start("commands", *words, *LIMITS)
    run.give(lines_of({"custom_id": f"row-{n}", "n": n} for n in range(60)))
    service.wait("accepted", 15)
    one.signal(signal.SIGTERM)
    two.until_said("schedules and flows: served by this process")
    ended = run.ended()
    assert ended.exit_code == 0, ended
    results = composed.start("commands", *of_header("results")).ended()
    assert len(results.stdout.splitlines()) == 60
    assert service.counted("accepted") == 60
    there = composed.start("commands", *of_header("status"), "--json").ended().summary["processes"]
    assert [f"process {two.pid} on " in each["process"] for each in there if not each["stands_by"]] == [True]
    healthy = composed.start("commands", *composed.services["two"]["healthcheck"]["test"][2:]).ended()
    assert healthy.exit_code == 0, healthy
    for each in (two, dashboard):
        each.signal(signal.SIGTERM)
    assert [each.ended().exit_code for each in (one, two, dashboard)] == [0, 0, 0]


def of_units() -> dict[str, str]:
    """The variables of the file for units, without those that may be left out; what quotes them is systemd's."""
    lines = re.findall(r"^([A-Z_]+)='(.*)'$", FOR_UNITS.read_text(encoding="utf-8"), re.MULTILINE)
    return dict(lines)


@of_systemd
def test_systemd_finds_nothing_wrong_with_a_unit_that_serves_beside_others(tmp_path: Path) -> None:
    program = tmp_path / "orchestrator"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    text = (FOLDER / "systemd" / "orchestrator.service").read_text(encoding="utf-8")
    unit = tmp_path / "orchestrator.service"
    unit.write_text(text.replace("/opt/orchestrator/bin/orchestrator", str(program)))
    (tmp_path / DROP_IN).parent.mkdir()
    (tmp_path / DROP_IN).write_text((FOLDER / "systemd" / DROP_IN).read_text(encoding="utf-8"))
    found = analyzed("verify", str(unit))
    assert (found.returncode, found.stderr) == (0, "")
    (tmp_path / DROP_IN).write_text("[Service]\nNoSuchKey=1\n")
    assert "NoSuchKey" in analyzed("verify", str(unit)).stderr  # it was read


async def connections_of(ledger: str) -> int:
    """How many processes that work on it have."""
    ours = await asyncpg.connect(ledger)
    found = await ours.fetchval(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE"
        " 'orchestrator%'"
    )
    await ours.close()
    return int(found)


@pytest.mark.slow
def test_a_unit_beside_others_and_a_command_beside_it_have_the_variables_of_the_file(
    desk: Desk, service: Service, ledger: str
) -> None:
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.read(FOLDER / "systemd" / "orchestrator.service")
    assert set(of_units()) == {"ORCHESTRATOR_API_KEY", "ORCHESTRATOR_LEDGER", "PGPASSWORD", WEBHOOK_KEY_VARIABLE}
    assert not any(value for name, value in of_units().items() if name.endswith(("KEY", "PASSWORD")))
    state = desk.folder / unit["Service"]["StateDirectory"]
    filled_in = {
        "ORCHESTRATOR_API_KEY": desk.environment()["ORCHESTRATOR_API_KEY"],
        "ORCHESTRATOR_LEDGER": ledger,
        "PGPASSWORD": "hunter2",
        WEBHOOK_KEY_VARIABLE: "5e" * 32,
        "STATE_DIRECTORY": str(state),
    }
    words = shlex.split(unit["Service"]["ExecStart"])[1:]
    serving = desk.start(*words, environ=filled_in | {"ORCHESTRATOR_SERVERLESS_URL": service.url})
    serving.until_said("schedules and flows: served by this process")
    assert asyncio.run(connections_of(ledger)) <= CONNECTIONS_NEEDED - 2
    beside = desk.call("status", "--processes", "--json", environ=filled_in)
    assert [each["stands_by"] for each in beside.summary["processes"]] == [False]
    serving.signal(signal.SIGTERM)
    ended = serving.ended()
    assert ended.exit_code == 0, ended
    assert "hunter2" not in ended.stdout + ended.stderr
    assert any(state.iterdir())
