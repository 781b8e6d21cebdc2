"""`orchestrator templates`: save, show, delete, list."""

import os
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.service_access import Command, Connect, Noun, tell_deleted
from orchestrator.cli.output import streams, tables
from orchestrator.core.service import account_interfaces
from orchestrator.errors import UsageError

if TYPE_CHECKING:
    from orchestrator.account import Account  # at run time `--help` would pay for them
    from orchestrator.account.templates.templates import EnvironmentVariable, Template

_FROM_ENVIRONMENT: Final = re.compile(r"env:([A-Za-z_][A-Za-z0-9_]*)")

CONTAINER: Final = "Container"

_HEADINGS: Final = ("id", "name", "image", "for", "disk", "volume", "env")

Given = Annotated[
    str,
    typer.Argument(
        metavar="TEMPLATE", help="The template's id or name, as [bold]orchestrator templates list[/] shows them."
    ),
]

Name = Annotated[str, typer.Argument(metavar="NAME", help="The template's name, which no other template has.")]
Image = Annotated[str, typer.Option(metavar="IMAGE:TAG", help="Container image.", rich_help_panel=CONTAINER)]
ContainerDisk = Annotated[
    int, typer.Option(metavar="GB", help="Size of the container disk.", rich_help_panel=CONTAINER)
]
Volume = Annotated[
    int | None,
    typer.Option(metavar="GB", help="Size of the volume; 0 for serverless templates.", rich_help_panel=CONTAINER),
]
Id = Annotated[
    str | None,
    typer.Option("--id", metavar="ID", help="Modify this template; what is not given stays. Default: create one."),
]
Serverless = Annotated[
    bool, typer.Option("--serverless", metavar="", help="For endpoints rather than pods. Implies --volume 0.")
]
DockerArgs = Annotated[
    str | None, typer.Option(metavar="TEXT", help="Start arguments of the container.", rich_help_panel=CONTAINER)
]
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Environment variable; KEY=env:NAME takes the value from here. Secrets: KEY='{{ RUNPOD_SECRET_name }}'."
        " Repeatable.",
        rich_help_panel=CONTAINER,
    ),
]
Ports = Annotated[str | None, typer.Option(metavar="LIST", help="As in 8888/http,22/tcp.", rich_help_panel=CONTAINER)]
Readme = Annotated[str | None, typer.Option(metavar="FILE", help="A file with the readme text.")]
MountPath = Annotated[
    str | None, typer.Option(metavar="PATH", help="Where the volume is mounted.", rich_help_panel=CONTAINER)
]
RegistryAuth = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Saved registry credentials, for a private image.", rich_help_panel=CONTAINER),
]


def add_templates(commands: typer.Typer, connect: Connect) -> None:
    """Registers `templates` and its commands."""
    group = typer.Typer(no_args_is_help=True, help="Save, show, delete and list templates.")
    commands.add_typer(group, name="templates")
    templates = service_access.account_noun(group, account_interfaces.Noun.TEMPLATES, connect)

    _add_save(templates)

    @templates.command()
    def show(template: Given) -> Command:
        """Show one template. The values of its environment variables are in --json only.

        Example: orchestrator templates show captions
        """
        return partial(_show, template)

    @templates.command()
    def delete(template: Given, yes: service_access.Yes = False) -> Command:
        """Delete a template. Asks first. One that was in use is tried again for up to two minutes.

        Example: orchestrator templates delete captions
        """
        return partial(_delete, template, yes)

    @templates.command("list")
    def list_(limit: service_access.AtMost = None) -> Command:
        """List the account's templates. The values of their environment variables are in --json only.

        Example: orchestrator templates list
        """
        return partial(_list, limit)


def _add_save(templates: Noun) -> None:
    @templates.command()
    def save(
        name: Name,
        image: Image,
        container_disk: ContainerDisk,
        volume: Volume = None,
        id_: Id = None,
        serverless: Serverless = False,
        docker_args: DockerArgs = None,
        env: Env = None,
        ports: Ports = None,
        readme: Readme = None,
        volume_mount_path: MountPath = None,
        registry_auth: RegistryAuth = None,
    ) -> Command:
        """Create a template, or with --id modify one.

        Example: orchestrator templates save captions --image me/captions:3 --container-disk 20 --serverless
        """
        from orchestrator.account.templates.templates import Template

        if volume is None and not serverless:
            raise UsageError("--volume is required for a template that is not --serverless")
        template = Template(
            id=id_,
            name=name,
            image_name=image,
            container_disk_in_gb=container_disk,
            volume_in_gb=volume or 0,
            docker_args=docker_args,
            env=None if env is None else tuple(_variable(text) for text in env),
            ports=ports,
            readme=None if readme is None else _text(Path(readme)),
            volume_mount_path=volume_mount_path,
            is_serverless=serverless or (None if id_ else False),
            container_registry_auth_id=registry_auth,
        )
        return partial(_save, template)


async def _save(template: "Template", account: "Account", as_json: bool) -> None:
    saved = await account.templates.save(template, losing=streams.warn)
    if as_json:
        streams.put_json(saved)
    streams.say(f"template {saved.name}: saved as {saved.id}")


def _variable(text: str) -> "EnvironmentVariable":
    from orchestrator.account.templates.templates import EnvironmentVariable

    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError("--env: write it as KEY=VALUE")  # not quoted: it may be a value without its key
    return EnvironmentVariable(key=key, value=from_environment(value, f"--env {key}") or value)


def from_environment(text: str, flag: str) -> str | None:
    """The value of the variable that `env:NAME` names; None where `text` has another form. Raises `UsageError`."""
    named = _FROM_ENVIRONMENT.fullmatch(text)
    if named is None:
        return None
    value = os.environ.get(named[1])
    if not value:
        raise UsageError(f"{flag}: the environment does not set {named[1]}")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--readme {path}: cannot be read as text ({type(error).__name__})") from None


async def _show(given: str, account: "Account", as_json: bool) -> None:
    from orchestrator.account.name_lookup import id_of
    from orchestrator.core.text.name_match import looks_like_an_id

    template = await account.templates.show(given) if looks_like_an_id(given) else None
    if template is None:
        known = {each.id: each for each in await account.templates.list()}
        template = known[id_of("template", given, known.values())]
    if as_json:
        streams.put_json(template)
    else:
        tables.put_parts(tables.lines((name, tables.plain(value)) for name, value in _lines(template) if value))


async def template_id(given: str, account: "Account") -> str:
    """The id of the template that is called `given`. What looks like an id is taken for one, and what is in no list may
    be one all the same: of a template that is everybody's. Raises `UsageError` where there is none.
    """
    from orchestrator.account.name_lookup import UnknownNameError, id_of
    from orchestrator.core.text.name_match import looks_like_an_id

    if looks_like_an_id(given):
        return given
    try:
        return id_of("template", given, await account.templates.list())
    except UnknownNameError:
        if await account.templates.show(given) is None:
            raise
    return given


def _lines(template: "Template") -> Iterator[tuple[str, object]]:
    yield from zip(_HEADINGS, _row(template), strict=True)
    yield "start", template.docker_args
    yield "ports", template.ports
    yield "mounted at", template.volume_mount_path
    yield "registry", template.container_registry_auth_id
    yield "readme", template.readme


async def _name_of(given: str, account: "Account") -> str:
    """The name of the template that has this id, or this name: it is deleted by its name."""
    from orchestrator.core.text.name_match import looks_like_an_id

    known = await account.templates.list() if looks_like_an_id(given) else ()
    is_name = any(each.name == given for each in known)
    return given if is_name else next((each.name for each in known if each.id == given), given)


async def _delete(given: str, yes: bool, account: "Account", as_json: bool) -> None:
    name = await _name_of(given, account)
    service_access.confirm(f"delete template {name!r}?", yes=yes)
    await account.templates.delete(name, waiting=streams.say)
    tell_deleted(f"template {name}", {"name": name}, as_json=as_json)


async def _list(limit: int | None, account: "Account", as_json: bool) -> None:
    tables.put_list(
        await account.templates.list(limit=limit),
        as_json=as_json,
        none="the account has no templates",
        headings=_HEADINGS,
        row=_row,
    )


def _row(template: "Template") -> tuple[object, ...]:
    return (
        template.id,
        template.name,
        template.image_name,
        "endpoints" if template.is_serverless else "pods",
        f"{template.container_disk_in_gb} GB",
        f"{template.volume_in_gb} GB",
        ", ".join(variable.key for variable in template.env or ()),
    )
