"""The commands of templates, secrets and endpoints, against the emulator."""

import io
import json
import signal
from pathlib import Path

import anyio
import httpx
import pytest

from orchestrator.cli.account.endpoints import open_page
from orchestrator.cli.framework.service_access import Access, Interface, confirm, connect
from orchestrator.errors import UsageError
from tests.account.accounts import Script, refused
from tests.cli.accounts import Shell

SAVE = ("templates", "save", "t", "--image", "me/w:1", "--container-disk", "5", "--serverless")


def test_a_template_is_saved_modified_listed_and_deleted() -> None:
    """contract, templates: create, modify, delete."""
    shell = Shell()
    saved = shell(*SAVE, "--env", "A=1=2", "--env", "TOKEN={{ RUNPOD_SECRET_hf }}", "--json")
    template = json.loads(saved.stdout)
    assert (template["name"], template["imageName"], template["isServerless"]) == ("t", "me/w:1", True)
    assert template["env"][0] == {"key": "A", "value": "1=2"}
    assert saved.stderr == f"template t: saved as {template['id']}\n"
    assert shell(*SAVE, "--id", template["id"], "--env", "A=3").exit_code == 0
    listed = shell("templates", "list")
    assert [line.split() for line in listed.stdout.splitlines()][-1] == [
        template["id"],
        *("t", "me/w:1", "endpoints", "5", "GB", "0", "GB", "A"),
    ]
    assert json.loads(shell("templates", "list", "--json").stdout)[0]["env"] == [{"key": "A", "value": "3"}]
    deleted = shell("templates", "delete", "t", "--yes", "--json")
    assert (deleted.exit_code, json.loads(deleted.stdout)) == (0, {"name": "t", "deleted": True})
    assert shell("templates", "list").stderr == "the account has no templates\n"


def test_all_that_a_template_has_can_be_said(tmp_path: Path) -> None:
    """Contract of templates, Rule 3: `containerRegistryAuthId` for private images."""
    shell = Shell()
    (tmp_path / "readme.md").write_text("# hello")
    saved = shell(
        *("templates", "save", "t", "--image", "w:1", "--container-disk", "5", "--volume", "20"),
        *("--docker-args", "run", "--ports", "22/tcp", "--readme", "readme.md", "--volume-mount-path", "/w"),
        *("--registry-auth", "r", "--env", "SEED=env:THE_SEED"),
        THE_SEED="seven",
    )
    assert saved.exit_code == 0, saved.stderr
    (template,) = shell.account.templates.list()
    assert (template.docker_args, template.ports, template.readme) == ("run", "22/tcp", "# hello")
    assert (template.volume_in_gb, template.volume_mount_path, template.container_registry_auth_id) == (20, "/w", "r")
    assert template.env[0].value == "seven"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("templates", "save", "t", "--image", "w:1", "--container-disk", "5"), "--volume is required"),
        ((*SAVE, "--volume", "20"), "a serverless template has a volume of 0 GB"),
        ((*SAVE, "--env", "sesame"), "--env: write it as KEY=VALUE"),
        ((*SAVE, "--env", "A=env:NOT_SET"), "--env A: the environment does not set NOT_SET"),
        ((*SAVE, "--readme", "nowhere.md"), "--readme nowhere.md: cannot be read as text (FileNotFoundError)"),
        (("templates", "delete", "t"), "Nobody is here to ask; give --yes. Nothing was done"),
        (("secrets", "delete", "t"), "give --yes"),
        (("secrets", "create", "n", "--value", "sesame"), "never the value"),
        (("secrets", "create", "n", "--value", "env:NOT_SET"), "--value: the environment does not set NOT_SET"),
        (("secrets", "create", "n"), "the value of secret n is empty"),
        (("endpoints", "create", "--template", "t", "--idle-timeout", "1500ms"), "whole seconds"),
        (("endpoints", "create", "--template", "t", "--idle-timeout", "soon"), "--idle-timeout: "),
        (("endpoints", "create", "--template", "t", "--set", "gpuCount"), "write it as FIELD=JSON"),
        (("endpoints", "create", "--template", "t", "--set", "dataCenterIds=EU"), "this is not JSON"),
        (("endpoints", "update", "e1"), "nothing was named that should change"),
        (("endpoints", "list", "--rest-url", "api.example"), "--rest-url: this is no URL"),
        (("templates", "list", "--graphql-key", "body"), "--graphql-key: the key goes either in the query or"),
        (
            ("templates", "list", "--graphql-url", "https://a/graphql?api_key=x"),
            "the API key comes from the environment",
        ),
        (("endpoints", "list", "--rest-url", "https://a/v1/"), "leave /v1 out of the URL; it is added"),
    ],
)
def test_what_cannot_be_done_is_said_and_nothing_is_sent(arguments: tuple[str, ...], problem: str) -> None:
    script = Script(httpx.Response(500))
    with_a_bad_url = any(argument.endswith("-url") for argument in arguments)
    result = Shell(script, connect=connect if with_a_bad_url else None)(*arguments)
    assert (result.exit_code, script.requests) == (2, [])
    assert problem in result.stderr
    assert "sesame" not in result.stderr


def test_a_secret_comes_from_standard_input_or_the_environment() -> None:
    """contract, secrets: `secretCreate`; a value is never an argument."""
    shell = Shell()
    created = shell("secrets", "create", "a", "--json", stdin="se cret\n")
    assert json.loads(created.stdout) == {
        "id": json.loads(created.stdout)["id"],
        "name": "a",
        "description": None,
        "createdAt": None,
        "valueLastUpdatedAt": None,
    }
    named = shell("secrets", "create", "b", "--value", "env:TOKEN", "--description", "x\x1b[1m", TOKEN="hunter2")
    assert named.exit_code == 0
    assert shell.account.secrets.resolve({"A": "{{ RUNPOD_SECRET_a }}{{ RUNPOD_SECRET_b }}"}) == {"A": "se crethunter2"}
    listed = shell("secrets", "list")
    assert [line.split()[1:] for line in listed.stdout.splitlines()][-2:] == [["a"], ["b", "x\\x1b[1m"]]
    ids = [each["id"] for each in json.loads(shell("secrets", "list", "--json").stdout)]
    assert json.loads(shell("secrets", "delete", ids[0], "--yes", "--json").stdout) == {"id": ids[0], "deleted": True}
    assert shell("secrets", "delete", ids[1], "--yes").stderr == f"secret {ids[1]}: deleted\n"
    assert shell("secrets", "list").stderr == "the account has no secrets\n"
    everything = created.output + named.output + listed.output
    assert "hunter2" not in everything
    assert "se cret" not in everything


def test_standard_input_that_is_no_text_is_refused() -> None:
    assert "not UTF-8" in Shell()("secrets", "create", "a", stdin=b"\xff").stderr


def test_an_endpoint_is_created_listed_shown_changed_and_deleted() -> None:
    """contract, serverless: creating an endpoint; the rest as observed."""
    shell = Shell()
    template = json.loads(shell(*SAVE, "--json").stdout)["id"]
    create = ("endpoints", "create", "--template", template, "--name", "e", "--gpu", "A", "--gpu", "B")
    more = ("--workers-min", "0", "--workers-max", "2", "--idle-timeout", "1m", "--set", "gpuCount=2")
    created = shell(*create, *more, "--json")
    endpoint = json.loads(created.stdout)
    assert (endpoint["gpuTypeIds"], endpoint["idleTimeout"], endpoint["gpuCount"]) == (["A", "B"], 60, 2)
    assert created.stderr == f"endpoint {endpoint['id']}: created; the job API may answer 404 for a while\n"
    changed = shell("endpoints", "update", endpoint["id"], "--workers-max", "4")
    row = [endpoint["id"], "e", template, "0-4", "60", "s", "A,", "B"]
    assert changed.stdout.splitlines()[3].split() == ["workers", "0-4"]
    assert shell("endpoints", "list").stdout.splitlines()[-1].split() == row
    shown = [line.split() for line in shell("endpoints", "show", endpoint["id"]).stdout.splitlines()]
    assert ["GPU", "types", "A,", "B"] in shown
    assert ["gpuCount", "2"] in shown, "whatever else the service says"
    assert ["flashboot", "false"] in shown
    assert json.loads(shell("endpoints", "list", "--json").stdout)[0]["workersMax"] == 4
    unasked = shell("endpoints", "delete", endpoint["id"])
    assert (unasked.exit_code, f"delete endpoint {endpoint['id']} ('e')" in unasked.stderr) == (2, True)
    deleted = shell("endpoints", "delete", endpoint["id"], "--yes", "--json")
    assert json.loads(deleted.stdout) == {"id": endpoint["id"], "deleted": True}
    assert shell("endpoints", "list").stderr == "the account has no endpoints\n"


def test_an_endpoint_about_which_little_is_known_is_shown_all_the_same() -> None:
    shell = Shell(Script(httpx.Response(200, json={"id": "x1"})))
    assert shell("endpoints", "show", "x1").stdout.split() == [
        "id",
        "x1",
        "name",
        "template",
        "workers",
        "?-?",
        "idle",
        "?",
        "s",
        "GPU",
        "types",
    ]


def test_whoever_creates_an_endpoint_can_wait_until_it_takes_jobs() -> None:
    """As observed: a new endpoint is unknown to the job API for its first moments."""
    create = ("endpoints", "create", "--template", "t1", "--wait")
    made = httpx.Response(200, json={"id": "e1"})
    ready = Shell(Script(made, httpx.Response(200, json={"jobs": {}, "workers": {}})))(*create)
    assert (ready.exit_code, ready.stderr.splitlines()[-1]) == (0, "endpoint e1: ready for jobs")
    script = Script(made, httpx.Response(404))
    late = Shell(script)(*create, "--timeout", "0s")
    assert late.exit_code == 3
    assert "endpoint e1: created" in late.stderr
    assert "a new endpoint is unknown for its first moments" in late.stderr
    assert [request.url.path for request in script.requests] == ["/v1/endpoints", "/v2/e1/health"]


def test_the_help_says_that_an_update_may_need_workers_to_be_restarted() -> None:
    """Contract, Console operations: an edit may require restarting active workers; nothing is restarted by itself."""
    assert "Active workers may have to be restarted" in Shell()("endpoints", "update", "--help").stdout


def test_by_rest_v2_all_of_it_is_done_as_by_the_older_interfaces() -> None:
    """As observed. Lists end at `--limit`; what a change takes away is said first."""
    shell = Shell()
    v2 = ("--interface", "v2")
    template = json.loads(shell(*SAVE, "--env", "A=1", "--env", "B=2", "--json", *v2).stdout)["id"]
    again = shell(*SAVE, "--id", template, "--env", "A=2", *v2)
    assert again.stderr == (f"warning: template t: the variable B will be gone\ntemplate t: saved as {template}\n")
    create = ("endpoints", "create", "--template", template, "--execution-timeout", "90s", *v2)
    made = [
        json.loads(shell(*create, "--name", f"e{n}", "--gpu", "NVIDIA L4", "--json").stdout)["id"] for n in range(2)
    ]
    assert shell(*create, "--name", "e").stderr.startswith("error: REST v2 cannot say an endpoint without a choice")
    listed = shell("endpoints", "list", "--limit", "1", *v2).stdout.splitlines()
    assert [line.split() for line in listed][2:] == [[made[1], "e1", "0-3", "10", "s", "NVIDIA", "L4"]]
    shown = [line.split() for line in shell("endpoints", "show", made[0], *v2).stdout.splitlines()]
    assert ["timeout", "90000"] in shown
    assert shell("endpoints", "workers", made[0], *v2).stderr == f"endpoint {made[0]} has no workers\n"
    assert shell("endpoints", "update", made[0], "--execution-timeout", "1us", *v2).exit_code == 2
    for endpoint in made:
        assert shell("endpoints", "delete", endpoint, "--yes", *v2).exit_code == 0
    assert shell("templates", "list", "--limit", "1", *v2).stdout.splitlines()[-1].split()[:2] == [template, "t"]
    assert shell("templates", "delete", "t", "--yes", *v2).stderr == "template t: deleted\n"


@pytest.mark.parametrize("interface", ["v2", "graphql"])
def test_a_secret_is_rotated_and_nothing_prints_its_value(interface: str) -> None:
    shell = Shell()
    more = ("--interface", interface)
    secret = json.loads(shell("secrets", "create", "hf", "--json", *more, stdin="hunter2").stdout)["id"]
    rotated = shell("secrets", "rotate", secret, "--json", *more, stdin="hunter3\n")
    assert (rotated.stderr, json.loads(rotated.stdout)["name"]) == ("secret hf: has another value\n", "hf")
    assert shell.account.secrets.resolve({"A": "{{ RUNPOD_SECRET_hf }}"}) == {"A": "hunter3"}
    described = shell("secrets", "rotate", secret, "--description", "of the hub", *more)
    assert described.stderr == "secret hf: described anew\n"
    both = shell("secrets", "rotate", secret, "--value", "env:T", "--description", "", *more, T="hunter4")
    listed = shell("secrets", "list", "--limit", "1", *more)
    assert listed.stdout.splitlines()[-1].split() == [secret, "hf"]
    assert shell.account.secrets.resolve({"A": "{{ RUNPOD_SECRET_hf }}"}) == {"A": "hunter4"}
    assert "hunter" not in rotated.output + described.output + both.output + listed.output
    assert shell("secrets", "create", "RUNPOD_x", *more, stdin="v").exit_code == 2


def test_who_acts_for_a_team_says_so_to_the_interface_that_knows_teams() -> None:
    shell = Shell()
    assert shell("templates", "list", "--team", "red", "--interface", "v2").exit_code == 0
    assert shell.access is not None
    assert shell.access.team == "red"


def test_an_interface_that_knows_no_secrets_is_refused() -> None:
    found = Shell()("secrets", "list", "--interface", "v1")
    assert (found.exit_code, found.stderr) == (
        2,
        "error: REST v1 knows no secrets; choose another --interface: v2, graphql\n",
    )


def test_a_wrong_key_is_a_refusal() -> None:
    """contract, templates and serverless, Authentication."""
    for noun in ("templates", "secrets", "endpoints"):
        result = Shell(key="wrong-key")(noun, "delete", "x", "-y")
        assert result.exit_code == 3
        assert "unauthorized" in result.stderr
        assert "wrong-key" not in result.stderr


def test_a_refusal_of_graphql_is_told_in_the_services_words() -> None:
    shell = Shell()
    shell(*SAVE)
    again = shell(*SAVE)
    assert (again.exit_code, again.stderr) == (
        3,
        "error: templates save t: the service refused it (template name must be unique: t)\n",
    )
    quoting = Shell(Script(refused("do not know hunter2")))("secrets", "create", "n", stdin="hunter2")
    assert quoting.stderr == "error: secrets create n: the service refused it (do not know [hidden])\n"


def test_the_key_comes_from_the_environment_only() -> None:
    result = Shell(key="")("secrets", "list")
    assert result.exit_code == 2
    assert "there is no API key; set it in the environment" in result.stderr


def test_urls_and_the_keys_place_are_settings() -> None:
    shell = Shell()
    shell(
        *("secrets", "list", "--graphql-key", "header"),
        ORCHESTRATOR_GRAPHQL_URL="http://h/graphql",
        ORCHESTRATOR_REST_URL="http://h",
    )
    assert shell.access is not None
    assert repr(shell.access) == "Access('http://h/graphql')"
    assert shell.access.graphql_key == "header"
    shell("endpoints", "list", ORCHESTRATOR_REST_URL="http://h/")
    assert repr(shell.access) == "Access('http://h', 'https://api.runpod.ai')"


def test_a_key_that_travels_unencrypted_is_warned_about() -> None:
    shell = Shell()
    warning = "warning: the API key travels unencrypted to"
    assert warning in shell("secrets", "list", "--graphql-url", "http://far.example/graphql").stderr
    assert warning in shell("endpoints", "list", "--rest-url", "http://far.example").stderr
    assert warning not in shell("endpoints", "list").stderr


def test_the_real_service_is_made_from_what_was_chosen() -> None:
    service = connect(Access(urls={Interface.ENDPOINTS: "http://127.0.0.1:1"}, key="key"))
    assert repr(service.endpoints) == "Endpoints(v1 Rest('http://127.0.0.1:1'))"


class Terminal(io.StringIO):
    """Somebody who types."""

    def isatty(self) -> bool:
        return True


def test_at_a_terminal_deletions_ask(capsys: pytest.CaptureFixture[str]) -> None:
    confirm("delete it?", yes=False, terminal=Terminal("Yes\n"))
    assert capsys.readouterr().err == "delete it? [y/N] "
    for answer in ("n\n", "\n", ""):
        with pytest.raises(UsageError, match="not confirmed; nothing was done"):
            confirm("delete it?", yes=False, terminal=Terminal(answer))


class Interrupted(Terminal):
    """Somebody who presses Ctrl-C in the place of an answer."""

    def readline(self, _size: int = -1, /) -> str:  # type: ignore[override]  # as io.StringIO itself
        signal.raise_signal(signal.SIGINT)
        return ""


def test_one_ctrl_c_ends_a_question_that_the_event_loop_stands_still_for() -> None:
    async def asks() -> None:
        confirm("delete it?", yes=False, terminal=Interrupted())

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        anyio.run(asks)
    assert signal.getsignal(signal.SIGINT) is before


def test_what_the_console_has_typed_is_typed_here_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Contract of serverless endpoints: the endpoint's name must be typed to confirm."""
    confirm("delete it?", yes=False, name="captions", terminal=Terminal("captions\n"))
    assert capsys.readouterr().err == "delete it? Type its name, captions, to confirm: "
    for answer in ("yes\n", "Captions\n", ""):
        with pytest.raises(UsageError, match="not confirmed; nothing was done"):
            confirm("delete it?", yes=False, name="captions", terminal=Terminal(answer))


def test_names_are_as_good_as_ids() -> None:
    shell = Shell()
    template = json.loads(shell(*SAVE, "--env", "TOKEN=hunter2", "--ports", "80/http", "--json").stdout)["id"]
    create = ("endpoints", "create", "--template", template, "--gpu", "A", "--workers-max", "1", "--json")
    endpoint = json.loads(shell(*create, "--name", "captions").stdout)["id"]
    secret = json.loads(shell("secrets", "create", "hf_token", "--json", stdin="v").stdout)["id"]
    assert json.loads(shell("endpoints", "update", "captions", "--workers-max", "3", "--json").stdout)["id"] == endpoint
    shown = shell("endpoints", "show", "captions")
    assert (shown.exit_code, shown.stdout.split()[:2]) == (0, ["id", endpoint])
    opened = shell("endpoints", "open", "captions")
    assert opened.stdout == f"https://console.runpod.io/serverless/user/endpoint/{endpoint}\n"
    assert json.loads(shell("endpoints", "open", endpoint, "--json").stdout) == {"url": opened.stdout.strip()}
    for given in (template, "t"):
        of_template = shell("templates", "show", given)
        assert (of_template.exit_code, of_template.stdout.split()[:2]) == (0, ["id", template])
        assert "hunter2" not in of_template.output
        assert "TOKEN" in of_template.stdout
        assert json.loads(shell("templates", "show", given, "--json").stdout)["env"][0]["value"] == "hunter2"
    assert shell("secrets", "rotate", "hf_token", stdin="w").stderr == "secret hf_token: has another value\n"
    assert shell("secrets", "delete", "hf_token", "-y").stderr == f"secret {secret}: deleted\n"
    assert shell("endpoints", "delete", "captions", "-y").stderr == f"endpoint {endpoint}: deleted\n"
    for noun in ("endpoints", "secrets"):
        assert shell(noun, "list", "--json").stdout == "[]\n"


def test_a_template_is_deleted_by_its_id_and_an_unknown_one_is_said_with_the_nearest() -> None:
    shell = Shell()
    template = json.loads(shell(*SAVE, "--json").stdout)["id"]
    near = shell("templates", "show", "T")
    assert (near.exit_code, near.stderr) == (2, "error: there is no template T; the account has t\n")
    assert shell("templates", "delete", template, "-y").stderr == "template t: deleted\n"
    gone = shell("templates", "show", "t")
    assert gone.stderr == "error: there is no template t; the account has no templates\n"


def test_the_page_of_an_endpoint_is_opened_for_who_can_see_it() -> None:
    pages: list[str] = []
    open_page("https://console.example/e1", Terminal(), pages.append)
    open_page("https://console.example/e2", io.StringIO(), pages.append)
    assert pages == ["https://console.example/e1"]
