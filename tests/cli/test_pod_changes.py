"""`orchestrator pods create` and `modify` at an emulated service: what is asked for, what is said, what is not shown."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.account.test_pods import Shell

L4 = ("--image", "img:1", "--gpu", "NVIDIA L4")
SECRET = "hunter2-the-password"


def test_a_pod_goes_through_its_life_from_the_command_line() -> None:
    """Created, renamed, locked, refused to stop, unlocked, stopped, started and terminated, all by its name."""
    shell = Shell()
    created = shell("create", "trainer", *L4, "--wait", "--json")
    assert created.exit_code == 0, created.stderr
    pod = json.loads(created.stdout)
    assert (pod["name"], pod["gpu"]["count"], pod["status"]) == ("trainer", 1, "RUNNING")
    assert created.stderr == f"pod {pod['id']}: created; it is RUNNING now, and costs $1.000 an hour\n"
    renamed = shell("modify", "trainer", "--name", "night-trainer")
    assert renamed.stderr == f"pod {pod['id']} (night-trainer): modified\n"
    locked = shell("modify", "night-trainer", "--lock")
    assert locked.stderr == f"pod {pod['id']} (night-trainer): modified; it is locked against stopping\n"
    refused = shell("stop", "night-trainer")
    assert refused.exit_code == 2
    assert refused.stderr == f"error: pod {pod['id']} is locked against stop; unlock it first\n"
    assert shell.status(pod["id"]) == "RUNNING"
    assert shell("modify", "night-trainer", "--unlock").exit_code == 0
    for action, status in (("stop", "EXITED"), ("start", "RUNNING")):
        assert shell(action, "night-trainer", "--wait").exit_code == 0
        assert shell.status(pod["id"]) == status
    assert shell("terminate", "night-trainer", "--yes").stderr == f"pod {pod['id']}: terminated\n"
    assert shell("list").stderr == "the account has no pods\n"
    gone = shell("show", "night-trainer")
    assert (gone.exit_code, gone.stderr) == (2, "error: there is no pod night-trainer; the account has no pods\n")


def made(*arguments: str, **environment: str) -> Any:
    """The record of a pod as the service has it, which the command has created."""
    shell = Shell()
    created = shell("create", "n", "--image", "img:1", *arguments, **environment)
    assert created.exit_code == 0, created.stderr
    return json.loads(shell("show", "n", "--json").stdout)


def test_whatever_is_said_of_a_pod_is_asked_for() -> None:
    pod = made(
        *("--gpu", "NVIDIA L4", "--gpu-count", "2", "--min-ram-per-gpu", "16", "--min-vcpu-per-gpu", "8"),
        *("--cuda", "12.8", "--cloud", "COMMUNITY", "--data-center", "EU-1", "--disk", "30", "--args", "serve it"),
        *("--port", "22/tcp", "--port", "80/http", "--registry-auth", "reg", "--ssh", "--jupyter"),
        *("--global-networking", "--network-volume", "v1:/data", "--global-volume", "g1"),
    )
    assert (pod["gpu"]["count"], pod["cloud"], pod["dataCenterId"], pod["disk"]) == (2, "COMMUNITY", "EU-1", 30)
    assert (pod["args"], pod["ports"], pod["registry"]) == ("serve it", ["22/tcp", "80/http"], "reg")
    assert pod["globalNetworking"]["enabled"] is True
    assert pod["mounts"]["network"] == [{"volumeId": "v1", "path": "/data"}]
    assert made("--cpu", "cpu3c", "--vcpus", "4")["cpu"]["vcpuCount"] == 4
    assert made("--gpu", "g", "--min-cuda", "12.4", "--volume", "20:/d")["mounts"]["persistent"]["size"] == 20


@pytest.mark.parametrize("flag", ["--min-ram-per-gpu", "--min-vcpu-per-gpu"])
def test_a_machine_that_nobody_has_is_a_lack_of_capacity(flag: str) -> None:
    refused = Shell()("create", "n", *L4, flag, "100000")
    assert refused.exit_code == 3
    assert "no longer any instances available" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--image", "i"), "the pod cannot be created: exactly one of gpu and cpu must be given; nothing was sent"),
        (("--image", "i", "--gpu-count", "2"), "--gpu-count goes with --gpu TYPE, which is missing"),
        (("--image", "i", "--cpu", "cpu3c"), "--cpu FLAVOR and --vcpus N go together"),
        ((*L4, "--volume", "big:/d"), "--volume big:/d: write it as GB:PATH, as in 20:/data"),
        ((*L4, "--network-volume", "v1"), "--network-volume v1: write it as ID:PATH"),
        ((*L4, "--env", SECRET), "--env: write it as KEY=VALUE"),
        ((*L4, "--env", "A=env:NOT_THERE"), "--env A: the environment does not set NOT_THERE"),
        ((*L4, "--env-file", "none.env"), "--env-file none.env: cannot be read as text (FileNotFoundError)"),
        ((*L4, "--timeout", "5s"), "--timeout says how long --wait may take, which is missing"),
    ],
)
def test_what_cannot_be_asked_for_is_refused_before_anything_is_sent(arguments: tuple[str, ...], line: str) -> None:
    shell = Shell()
    refused = shell("create", "n", *arguments)
    assert (refused.exit_code, refused.stderr) == (2, f"error: {line}\n")
    assert shell("list").stderr == "the account has no pods\n"


def test_ssh_without_keys_is_said_where_somebody_would_wonder() -> None:
    shell = Shell()
    warned = shell("create", "n", *L4, "--port", "22/tcp")
    assert "nobody gets in: SSH keys reach a pod only if it was created with --ssh" in warned.stderr
    assert "works only if the pod was created with --ssh" in shell("show", "n").stdout


# --- variables -------------------------------------------------------------------------------------------------------


def test_values_come_from_files_and_the_environment_and_are_never_printed_back(tmp_path: Path) -> None:
    file = tmp_path / "pod.env"
    file.write_text(f"# of the pod\n\nFROM_FILE={SECRET}\nBOTH=file\n")
    shell = Shell()
    variables = ("--env-file", str(file), "--env", "HERE=env:MINE", "--env", "BOTH=flag")
    reference = "{{ RUNPOD_SECRET_token }}"
    created = shell("create", "n", *L4, *variables, "--env", f"HF_TOKEN={reference}", "--json", MINE=SECRET)
    assert SECRET not in created.output
    assert json.loads(created.stdout)["env"] == {
        **dict.fromkeys(("FROM_FILE", "BOTH", "HERE"), "(not shown)"),
        "HF_TOKEN": reference,
    }
    assert "a value on the command line" not in created.stderr
    kept = {"FROM_FILE": SECRET, "BOTH": "flag", "HERE": SECRET, "HF_TOKEN": reference}
    assert json.loads(shell("show", "n", "--json").stdout)["env"] == kept
    changed = shell("modify", "n", "--env", "BOTH=new", "--unset-env", "HERE")
    assert SECRET not in changed.output
    record = json.loads(shell("show", "n", "--json").stdout)
    assert record["env"] == {"FROM_FILE": SECRET, "BOTH": "new", "HF_TOKEN": reference}


def test_a_value_that_looks_confidential_is_warned_of_and_not_quoted() -> None:
    warned = Shell()("create", "n", *L4, "--env", f"HF_TOKEN={SECRET}", "--env", "MODE=fast")
    assert warned.exit_code == 0
    assert warned.stderr.count("a value on the command line can be read by others on this machine") == 1
    assert "HF_TOKEN=env:NAME" in warned.stderr
    assert SECRET not in warned.output


def test_what_was_wrong_in_a_file_is_named_by_its_line_and_not_quoted(tmp_path: Path) -> None:
    (tmp_path / "pod.env").write_text(f"A=1\n{SECRET}\n")
    refused = Shell()("create", "n", *L4, "--env-file", str(tmp_path / "pod.env"))
    assert refused.stderr == f"error: --env-file {tmp_path}/pod.env, line 2: write it as KEY=VALUE\n"


# --- modify ----------------------------------------------------------------------------------------------------------


def test_nothing_changes_but_what_is_given_and_empty_texts_clear() -> None:
    shell = Shell()
    shell("create", "n", *L4, "--args", "serve", "--port", "80/http", "--registry-auth", "reg", "--env", "A=a")
    changed = shell("modify", "n", "--image", "img:2", "--args", "", "--port", "", "--registry-auth", "", "--json")
    assert changed.exit_code == 0, changed.stderr
    pod = json.loads(changed.stdout)
    assert (pod["image"], pod["args"], pod["ports"], pod["registry"]) == ("img:2", "", [], None)
    assert (pod["env"], pod["name"], pod["locked"]) == ({"A": "(not shown)"}, "n", False)
    record = json.loads(shell("modify", "n", "--no-global-networking", "--disk", "40", "--json").stdout)
    assert (record["disk"], record["image"]) == (40, "img:2")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ((), "nothing was named that should change"),
        (("--unset-env", "A"), "cannot be modified: it has no variable A; nothing was sent"),
        (("--disk", "0"), "cannot be modified: disk is 0 GB; at least 1; nothing was sent"),
    ],
)
def test_a_change_that_is_none_is_refused(arguments: tuple[str, ...], line: str) -> None:
    shell = Shell()
    shell("create", "n", *L4)
    refused = shell("modify", "n", *arguments)
    assert refused.exit_code == 2
    assert refused.stderr.endswith(f"{line}\n")


def test_a_template_fills_in_what_is_not_given() -> None:
    shell = Shell()
    refused = shell("create", "n", "--template", "gone1", "--gpu", "g")
    assert refused.exit_code == 3
    assert "404" in refused.stderr


def test_pages_are_followed_up_to_a_limit() -> None:
    shell = Shell()
    for name in ("a", "b", "c"):
        shell("create", name, *L4)
    assert [pod["name"] for pod in json.loads(shell("list", "--limit", "2", "--json").stdout)] == ["c", "b"]


def test_a_name_of_two_pods_is_refused_with_their_ids() -> None:
    shell = Shell()
    ids = [shell.create(), shell.create()]
    refused = shell("stop", "trainer")
    assert refused.exit_code == 2
    assert f"2 pods are called trainer: {', '.join(reversed(ids))}" in refused.stderr
