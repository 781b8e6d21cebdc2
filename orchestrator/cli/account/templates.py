"""`orchestrator templates`: save, show, delete, list."""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.flags import Flags
from orchestrator.cli.framework.service_access import tell_deleted
from orchestrator.cli.output import streams, tables
from orchestrator.core.service.account_interfaces import Noun
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
Env = Annotated[
    list[str] | None,
    typer.Option(
        metavar="KEY=VALUE",
        help="Environment variable; KEY=env:NAME takes the value from here. Secrets: KEY='{{ RUNPOD_SECRET_name }}'."
        " Repeatable.",
        rich_help_panel=CONTAINER,
    ),
]
RegistryAuth = Annotated[
    str | None,
    typer.Option(metavar="ID", help="Saved registry credentials, for a private image.", rich_help_panel=CONTAINER),
]


def _flag(kind: Any, metavar: str, means: str, panel: str | None = CONTAINER) -> Any:
    return Annotated[kind, typer.Option(metavar=metavar, help=means, rich_help_panel=panel)]


_SAVED: Final[Mapping[str, Any]] = {
    "volume": _flag(int | None, "GB", "Size of the volume; 0 for serverless templates."),
    "id": _flag(str | None, "ID", "Modify this template; what is not given stays. Default: create one.", None),
    "serverless": Annotated[
        bool | None,
        typer.Option("--serverless", metavar="", help="For endpoints rather than pods. Implies --volume 0."),
    ],
    "docker_args": _flag(str | None, "TEXT", "Start arguments of the container."),
    "env": Env,
    "ports": _flag(str | None, "LIST", "As in 8888/http,22/tcp."),
    "readme": _flag(str | None, "FILE", "A file with the readme text.", None),
    "volume_mount_path": _flag(str | None, "PATH", "Where the volume is mounted."),
    "registry_auth": RegistryAuth,
}

commands = typer.Typer(no_args_is_help=True, help="Save, show, delete and list templates.")

_shared = service_access.at_noun(Noun.TEMPLATES)


@commands.command("save")
@_shared(**_SAVED)
async def save_template(
    name: Name,
    image: Image,
    container_disk: ContainerDisk,
    *,
    flags: Flags,
    account: "Account",
    as_json: bool,
) -> None:
    """Create a template, or with --id modify one.

    Example: orchestrator templates save captions --image me/captions:3 --container-disk 20 --serverless
    """
    from orchestrator.account.templates.templates import Template

    if flags["volume"] is None and not flags["serverless"]:
        raise UsageError("--volume is required for a template that is not --serverless")
    template = Template(
        id=flags["id"],
        name=name,
        image_name=image,
        container_disk_in_gb=container_disk,
        volume_in_gb=flags["volume"] or 0,
        docker_args=flags["docker_args"],
        env=tuple(map(_variable, flags["env"])) if flags["env"] else None,
        ports=flags["ports"],
        readme=None if flags["readme"] is None else _text(Path(flags["readme"])),
        volume_mount_path=flags["volume_mount_path"],
        is_serverless=flags["serverless"] or (None if flags["id"] else False),
        container_registry_auth_id=flags["registry_auth"],
    )
    saved = await account.templates.save(template, losing=streams.warn)
    if as_json:
        streams.put_json(saved)
    streams.say(f"template {saved.name}: saved as {saved.id}")


@commands.command("show")
@_shared()
async def show_template(template: Given, *, account: "Account", as_json: bool) -> None:
    """Show one template. The values of its environment variables are in --json only.

    Example: orchestrator templates show captions
    """
    from orchestrator.account.name_lookup import id_of
    from orchestrator.core.text.name_match import looks_like_an_id

    found = await account.templates.show(template) if looks_like_an_id(template) else None
    if found is None:
        known = {each.id: each for each in await account.templates.list()}
        found = known[id_of("template", template, known.values())]
    if as_json:
        streams.put_json(found)
    else:
        tables.put_parts(tables.lines((name, tables.plain(value)) for name, value in _lines(found) if value))


@commands.command("delete")
@_shared()
async def delete_template(
    template: Given, yes: service_access.Yes = False, *, account: "Account", as_json: bool
) -> None:
    """Delete a template. Asks first. One that was in use is tried again for up to two minutes.

    Example: orchestrator templates delete captions
    """
    name = await _name_of(template, account)
    service_access.confirm(f"delete template {name!r}?", yes=yes)
    await account.templates.delete(name, waiting=streams.say)
    tell_deleted(f"template {name}", {"name": name}, as_json=as_json)


@commands.command("list")
@_shared()
async def list_templates(limit: service_access.AtMost = None, *, account: "Account", as_json: bool) -> None:
    """List the account's templates. The values of their environment variables are in --json only.

    Example: orchestrator templates list
    """
    tables.put_list(
        await account.templates.list(limit=limit),
        as_json=as_json,
        none="the account has no templates",
        headings=_HEADINGS,
        row=_row,
    )


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
