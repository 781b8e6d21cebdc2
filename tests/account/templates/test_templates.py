"""Templates from Python, against the emulator."""

from collections.abc import Mapping
from typing import Any

import anyio
import httpx
import msgspec
import pytest

from orchestrator.account.templates.templates import EnvironmentVariable, Template, check_template
from orchestrator.account.transport.graphql_client import GraphQLError
from orchestrator.errors import Unanswered, UsageError
from tests.account.accounts import Script, client_of, data, refused, scripted
from tests.emulator.accounts import account
from tests.simulation.clock import VirtualClock

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time]


def template(**change: Any) -> Template:
    fields: Mapping[str, Any] = {
        "name": "t",
        "image_name": "me/worker:1.0",
        "container_disk_in_gb": 5,
        "volume_in_gb": 0,
        "is_serverless": True,
        **change,
    }
    return Template(**fields)


async def test_a_template_is_saved_with_all_its_fields_and_listed() -> None:
    """contract, templates: `saveTemplate`."""
    client = client_of(account(strict=True))
    wanted = template(
        docker_args='python -u "h.py"',
        env=(EnvironmentVariable(key="A", value='"} }'), EnvironmentVariable(key="B", value="{{ RUNPOD_SECRET_s }}")),
        ports="8888/http,22/tcp",
        readme="# T\n\u2028",
        volume_mount_path="/w",
    )
    saved = await client.templates.save(wanted)
    assert saved.id
    assert saved == template(
        id=saved.id,
        docker_args=wanted.docker_args,
        env=wanted.env,
        ports=wanted.ports,
        readme=wanted.readme,
        volume_mount_path="/w",
    )
    assert await client.templates.list() == (saved,)


async def test_with_an_id_it_is_modified() -> None:
    """contract, templates: "the same mutation with `id`"."""
    client = client_of(account(strict=True))
    saved = await client.templates.save(template())
    changed = await client.templates.save(template(id=saved.id, container_disk_in_gb=50))
    assert (changed.id, changed.container_disk_in_gb) == (saved.id, 50)
    assert len(await client.templates.list()) == 1


@pytest.mark.parametrize("missing", ["name", "image_name", "container_disk_in_gb", "volume_in_gb"])
def test_to_modify_takes_all_required_fields(missing: str) -> None:
    """contract, templates, rule 2."""
    fields = {"id": "x", "name": "t", "image_name": "a:1", "container_disk_in_gb": 1, "volume_in_gb": 0}
    del fields[missing]
    with pytest.raises(TypeError, match=missing):
        Template(**fields)  # type: ignore[arg-type]


async def test_a_name_that_exists_is_an_error() -> None:
    """contract, templates, Errors."""
    client = client_of(account(strict=True))
    await client.templates.save(template())
    with pytest.raises(
        GraphQLError, match=r"templates save t: the service refused it \(template name must be unique: t\)"
    ):
        await client.templates.save(template())


async def test_env_and_docker_args_are_always_sent() -> None:
    """as observed."""
    script = Script(data(saveTemplate={"id": "i", "name": None}))
    saved = await scripted(script).templates.save(template(container_registry_auth_id="c"))
    assert script.query == (
        'mutation { saveTemplate(input: {name: "t", imageName: "me/worker:1.0", containerDiskInGb: 5, volumeInGb: 0, '
        'dockerArgs: "", env: [], isServerless: true, containerRegistryAuthId: "c"}) '
        "{ id name imageName containerDiskInGb volumeInGb dockerArgs ports env { key value } readme volumeMountPath "
        "isServerless } }"
    )
    nothing = Template(id="i", name="", image_name="", container_disk_in_gb=0, volume_in_gb=0)
    assert saved == msgspec.structs.replace(nothing, container_registry_auth_id="c")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"volume_in_gb": 20}, "a serverless template has a volume of 0 GB"),
        ({"volume_in_gb": -1, "is_serverless": False}, "the volume cannot be smaller than 0 GB"),
        ({"container_disk_in_gb": 0}, "the container disk must have at least 1 GB"),
        ({"name": " "}, "the name is empty"),
        ({"image_name": "nginx"}, "the image 'nginx' needs a tag"),
        ({"image_name": "registry:5000/nginx"}, "needs a tag"),
        ({"ports": "8888"}, "'8888' is no port/protocol"),
        ({"ports": "1/http,70000/tcp"}, "'70000/tcp' is no port/protocol"),
        ({"env": (EnvironmentVariable(key="", value="x"),)}, "'' cannot be the name of a variable"),
        ({"env": (EnvironmentVariable(key="A", value="x"),) * 2}, "the variable A stands there twice"),
    ],
)
async def test_what_breaks_a_rule_is_refused_before_it_is_sent(change: Mapping[str, Any], problem: str) -> None:
    """contract, templates: field notes and rule 1."""
    script = Script(data())
    with pytest.raises(UsageError) as caught:
        await scripted(script).templates.save(template(**change))
    assert problem in str(caught.value)
    assert not script.requests


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(
        UsageError, match=r"^template 't': the image 'x y' needs .*; the container disk .*; a serverless"
    ):
        check_template(template(image_name="x y", container_disk_in_gb=-1, volume_in_gb=1))


@pytest.mark.parametrize("image", ["a:1", "me/w:1.0-b_2", "r:5000/me/w:latest", "me/w@sha256:0a1b"])
def test_an_image_has_a_tag_or_a_digest(image: str) -> None:
    """Contract of templates, `imageName`: with tag."""
    check_template(template(image_name=image))


async def test_deleting_waits_until_the_template_is_free() -> None:
    """contract, templates, Deletion rule: up to two minutes after its last use."""
    clock = VirtualClock()
    subject = account(clock, strict=True)
    client = client_of(subject, clock)
    saved = await client.templates.save(template())
    assert saved.id is not None
    subject.templates.use(saved.id, "pod")
    subject.templates.release(saved.id, "pod", clock.now() - 100_000_000)
    said: list[str] = []
    await client.templates.delete("t", waiting=said.append)
    assert await client.templates.list() == ()
    assert len(said) == 2
    assert said[0] == (
        "template t cannot be deleted yet (template t was in use a moment ago; try again in 2 minutes);"
        " trying for 120 s more"
    )
    assert said[1].endswith("trying for 110 s more")


async def test_deleting_gives_up_after_two_minutes() -> None:
    script = Script(refused("cannot remove"))
    said: list[str] = []
    started = anyio.current_time()
    with pytest.raises(GraphQLError, match="cannot remove"):
        await scripted(script, clock=VirtualClock()).templates.delete("t", waiting=said.append)
    assert anyio.current_time() - started == pytest.approx(120)
    assert (len(script.requests), len(said)) == (13, 12)


@pytest.mark.parametrize(
    "reply",
    [
        refused("Template not found"),
        refused("Unauthorized"),
        refused("in use", status=400),
        httpx.Response(401),
        httpx.ReadError("cut"),
    ],
)
async def test_deleting_does_not_wait_for_what_does_not_pass(reply: httpx.Response | Exception) -> None:
    script = Script(reply)
    with pytest.raises((GraphQLError, Unanswered)):
        await scripted(script, clock=VirtualClock()).templates.delete("t")
    assert len(script.requests) == 1


async def test_a_name_is_needed_to_delete() -> None:
    with pytest.raises(UsageError):
        await scripted(Script(data())).templates.delete("")
