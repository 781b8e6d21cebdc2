"""A container's command in its stored form, `args`, and taken apart (contract of pods, Container configuration)."""

import shlex
from typing import Final

import msgspec


class ContainerCommand(msgspec.Struct, frozen=True, kw_only=True):
    """What replaces an image's ENTRYPOINT and CMD; None replaces nothing."""

    entrypoint: tuple[str, ...] | None = None
    cmd: tuple[str, ...] | None = None


_json: Final = msgspec.json.Decoder(object)


def parse_args(args: str) -> ContainerCommand:
    """The command that `args` holds, in either of its two shapes (rule 1).

    A JSON object text `{"entrypoint": [...], "cmd": [...]}` sets either or both; everything else is a shell string,
    which is CMD and split as a shell splits it. Text that begins with a brace and is no JSON is a shell string too
    (`{ a; b; }`). Empty text is an empty command. Raises ValueError for an object of another form and for a string
    whose quotes do not close.
    """
    try:
        members = _json.decode(args)
    except (ValueError, RecursionError):
        members = None
    if isinstance(members, dict):
        return _of_object(members)
    try:
        return ContainerCommand(cmd=tuple(shlex.split(args)) or None)
    except ValueError as error:
        raise ValueError(f"args cannot be split into arguments: {str(error).lower()}") from None


def _of_object(members: dict[str, object]) -> ContainerCommand:
    try:
        if members.keys() <= {"entrypoint", "cmd"} and None not in members.values():
            command = msgspec.convert(members, ContainerCommand)
            return ContainerCommand(entrypoint=command.entrypoint or None, cmd=command.cmd or None)
    except msgspec.ValidationError:
        pass
    raise ValueError('args as a JSON object must be {"entrypoint": [strings], "cmd": [strings]}, with either or both')


def command_problems(
    args: str | None, entrypoint: tuple[str, ...] | None, cmd: tuple[str, ...] | None
) -> tuple[str, ...]:
    """What is wrong with these three together (rule 3); None is a field that is left out, an empty one clears.

    `args` describes the whole command, so whatever else is given must equal its part of `args`.
    """
    if args is None:
        return ()
    try:
        stored = parse_args(args)
    except ValueError as error:
        return (str(error),)
    return tuple(
        f"args and {name} describe different commands: {list(present or ())} and {list(given)}"
        for name, given, present in (("entrypoint", entrypoint, stored.entrypoint), ("cmd", cmd, stored.cmd))
        if given is not None and (given or None) != present
    )
