"""What is packaged: units, an image, a site for nginx; as they stand, but for places of this machine."""

import configparser
import json
import re
import shlex
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Final

import pytest

from orchestrator.settings.monitoring.dashboard_settings import LISTEN_DEFAULT
from tests.dashboard.test_behind_nginx import NGINX, free_port, nginx
from tests.system.processes import ROOT, SECONDS_MAX, Desk

PACKAGING: Final = ROOT / "packaging"
SERVICES: Final = ("orchestrator.service", "orchestrator-tick.service")
CONTAINER: Final = PACKAGING / "container" / "Containerfile"
SITE: Final = PACKAGING / "proxy" / "nginx.conf"
ANALYZER: Final = shutil.which("systemd-analyze")
EXPOSURE_MAX: Final = 1.5
"""Of ten; above two it calls a unit no longer OK."""

pytestmark = pytest.mark.system
of_systemd = pytest.mark.skipif(ANALYZER is None, reason="systemd is not installed: apt-get install systemd")


def unit(name: str) -> configparser.ConfigParser:
    found = configparser.ConfigParser(interpolation=None, strict=False)  # which has some keys twice
    found.optionxform = str  # type: ignore[method-assign, assignment]  # names of units have capitals
    found.read(PACKAGING / "systemd" / name)
    return found


def analyzed(*words: str) -> subprocess.CompletedProcess[str]:
    command = [str(ANALYZER), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)


def lines_of(name: str) -> set[str]:
    """What a unit says, without comments."""
    text = (PACKAGING / "systemd" / name).read_text(encoding="utf-8")
    return {line for line in text.splitlines() if "=" in line and not line.startswith("#")}


@pytest.mark.parametrize("name", SERVICES)
def test_the_units_start_commands_that_there_are(name: str, desk: Desk) -> None:
    service = unit(name)["Service"]
    program, *arguments = shlex.split(service["ExecStart"])
    assert program.endswith("/bin/orchestrator")
    flags = desk.call("help", arguments[0]).stdout
    assert all(word in flags for word in arguments if word.startswith("--"))
    assert ("WatchdogSec" in service) == (service["Type"] == "notify")


def test_both_units_are_kept_in_by_the_same_lines() -> None:
    of_serve, of_tick = map(lines_of, SERVICES)
    hardening = {
        line for line in of_serve if re.match("Protect|Private|Restrict|SystemCall|Capab|NoNew|Lock|State", line)
    }
    assert len(hardening) > 20
    assert hardening - of_tick == set()


@of_systemd
def test_systemd_finds_nothing_wrong_with_the_units(tmp_path: Path) -> None:
    program = tmp_path / "orchestrator"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copies = []
    for name in (*SERVICES, "orchestrator-tick.timer"):
        text = (PACKAGING / "systemd" / name).read_text(encoding="utf-8")
        copies.append(tmp_path / name)
        copies[-1].write_text(text.replace("/opt/orchestrator/bin/orchestrator", str(program)))
    found = analyzed("verify", *map(str, copies))
    assert (found.returncode, found.stderr) == (0, "")


@of_systemd
@pytest.mark.parametrize("name", SERVICES)
def test_systemd_finds_little_that_the_units_leave_open(name: str) -> None:
    found = analyzed("security", "--offline=true", "--json=short", str(PACKAGING / "systemd" / name))
    assert found.returncode == 0, found.stderr
    left = {each["name"] for each in json.loads(found.stdout) if each["set"] is False}
    assert "NoNewPrivileges=" not in left
    told = analyzed("security", "--offline=true", str(PACKAGING / "systemd" / name))
    [exposure] = re.findall(r"exposure level .*: ([0-9.]+) ", told.stdout)
    assert float(exposure) <= EXPOSURE_MAX, told.stdout


@pytest.mark.slow
def test_serve_tells_its_service_manager_that_it_works_lives_and_stops(desk: Desk) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(desk.folder / "notify"))
        manager.settimeout(SECONDS_MAX)
        environ = {"NOTIFY_SOCKET": str(desk.folder / "notify"), "WATCHDOG_USEC": "200000"}
        serving = desk.start("serve", environ=environ)
        heard = [manager.recv(100)]
        while heard.count(b"WATCHDOG=1") < 3 or b"READY=1" not in heard:
            heard.append(manager.recv(100))
        assert b"STOPPING=1" not in heard
        serving.signal(signal.SIGTERM)
        while heard[-1] != b"STOPPING=1":
            heard.append(manager.recv(100))
        assert serving.ended().exit_code == 0


def test_the_image_runs_commands_that_there_are_without_rights_and_is_asked_how_it_is(desk: Desk) -> None:
    lines = CONTAINER.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    said = [line.partition(" ")[::2] for line in lines if line and not line.startswith("#")]
    last = dict(said)
    assert last["USER"] == "10001"
    assert json.loads(last["ENTRYPOINT"]) == ["orchestrator"]
    command, flag, address = json.loads(last["CMD"])
    assert flag in desk.call("help", command).stdout
    port = address.rpartition(":")[2]
    assert port == str(LISTEN_DEFAULT.port) == last["EXPOSE"]
    assert f":{port}/healthz" in last["HEALTHCHECK"]
    copied = [words.split()[:-1] for word, words in said if word == "COPY" and "--from" not in words]
    assert all((ROOT / path).exists() for paths in copied for path in paths)
    needed = {"orchestrator", "migrations", "pyproject.toml", "README.md", "LICENSE"}
    assert {path for paths in copied for path in paths} == needed


@pytest.mark.slow
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
def test_nginx_takes_the_site(tmp_path: Path) -> None:
    site = SITE.read_text(encoding="utf-8")
    inner = "\n".join(re.findall(r"^    location .*?^    }", site, re.DOTALL | re.MULTILINE))
    assert inner.count("proxy_pass") == 3
    with nginx(tmp_path, inner, free_port()):
        pass
