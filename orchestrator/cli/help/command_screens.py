"""What `--help` and `orchestrator help COMMAND` show of a command, of a group of commands, and of the whole program.

A command with many flags shows those first that most people need (`Setting.brief`); the others are shown by
`orchestrator help COMMAND`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

from orchestrator.api.emulation.emulate_request import EMULATOR
from orchestrator.cli.help.screen import Screen, unstyled
from orchestrator.cli.help.topics import TOPICS
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.monitoring.dashboard_settings import DASHBOARDS
from orchestrator.settings.setting import Setting

F = TypeVar("F", bound=Callable[..., Any])

COMMON: Final = "common_flags"
"""The attribute of a command's function that names flags of its own which most people need."""

FLAGS_MAX: Final = 20
"""A command with more flags shows the common ones alone."""

EXAMPLES: Final = ("Example: ", "Examples:")
"""How the paragraph of a command's docstring begins that has its examples."""

_SECTIONS: Final = {"emulate": EMULATOR, "dashboard serve": DASHBOARDS}
"""What settings of a command are, where they are not those of runs."""

_OTHERS: Final = "Flags"
"""The panel of flags that have no other."""

_HELP: Final = "--help"
_TERM_MAX: Final = 27
_TYPE: Final = re.compile(r" <[^>]*>$")
_DEFAULT: Final = re.compile(r"  \[default: ([^;\]]+)(?:;[^\]]*)?\]$")


def common(*flags: str) -> Callable[[F], F]:
    """Marks flags of a command's own, by parameter name, as those that most people need."""

    def marked(command: F) -> F:
        setattr(command, COMMON, flags)
        return command

    return marked


def command_screen(ctx: Any, *, is_whole: bool = False) -> str:
    """The help of a command: of all its flags, each with its text below it, or of the common ones, a line each."""
    command = ctx.command
    params = [param for param in command.get_params(ctx) if not param.hidden and _HELP not in param.opts]
    flags = [param for param in params if param.param_type_name == "option"]
    arguments = [param for param in params if param.param_type_name == "argument"]
    common = [param for param in flags if brief_of(ctx, param)]
    is_short = len(flags) > FLAGS_MAX and bool(common) and not is_whole
    shown = common if is_short else flags

    screen = Screen()
    text, examples = split_examples(command.help or "")
    screen.paragraph(f"Usage: {usage(ctx)}")
    paragraphs = text.split("\n\n")
    for paragraph in paragraphs[:1] if is_short else paragraphs:
        screen.gap()
        screen.paragraph(paragraph)
    _put_examples(screen, examples)
    rows = {panel: [_row(ctx, param, is_short) for param in members] for panel, members in _by_panel(shown).items()}
    beside = {"Arguments": [_record(ctx, param) for param in arguments], **({} if is_whole else rows)}
    _put_panels(screen, beside)
    for panel, members in rows.items() if is_whole else ():
        screen.heading(panel)
        for row in members:
            screen.below(*row)
    if is_short:
        screen.gap()
        screen.paragraph(f"{len(flags) - len(shown)} more flags, and more about these: {help_command(ctx)}")
    return str(screen)


def group_screen(ctx: Any) -> str:
    """The help of a group of commands: a line for each."""
    group = ctx.command
    screen = Screen()
    screen.paragraph(f"Usage: {ctx.command_path} COMMAND ...")
    for paragraph in (group.help or "").split("\n\n"):
        screen.gap()
        screen.paragraph(paragraph)
    _put_panels(screen, panels_of(ctx))
    screen.gap()
    screen.paragraph(f"More about one of them: {ctx.command_path} COMMAND --help")
    return str(screen)


def panels_of(ctx: Any) -> Mapping[str, list[tuple[str, str]]]:
    """The commands of a group that are no second name of others, with a line on each, by panel."""
    found: dict[str, list[tuple[str, str]]] = {}
    for name in ctx.command.list_commands(ctx):
        command = ctx.command.get_command(ctx, name)
        if not command.hidden:
            row = (name, first_sentence(command.help or ""))
            found.setdefault(getattr(command, "rich_help_panel", None) or "Commands", []).append(row)
    return found


def usage(ctx: Any) -> str:
    """How a command is written."""
    arguments = [
        name if param.required else f"[{name}]"
        for param in ctx.command.params
        if param.param_type_name == "argument" and (name := _record(ctx, param)[0])
    ]
    return " ".join([ctx.command_path, *arguments, "[FLAGS]"])


def help_command(ctx: Any) -> str:
    """What shows all of a command."""
    root, _, path = ctx.command_path.partition(" ")
    return f"{root} help {path}"


def first_sentence(text: str) -> str:
    """What a text says first, without its end."""
    return unstyled(text).split("\n\n")[0].replace("\n", " ").split(". ")[0].rstrip(".")


def split_examples(text: str) -> tuple[str, list[str]]:
    """A docstring without the paragraph of its examples, and these."""
    paragraphs = text.split("\n\n")
    examples = [each for each in paragraphs if each.startswith(EXAMPLES)]
    words = [line for each in examples for line in each.partition(":")[2].splitlines()]
    rest = [each for each in paragraphs if each not in examples]
    return "\n\n".join(rest), [line.strip() for line in words if line.strip()]


def brief_of(ctx: Any, param: Any) -> str:
    """A line on a flag that most people need; empty for the others."""
    if param.name in getattr(ctx.command.callback, COMMON, ()):
        return first_sentence(param.help)
    setting = setting_of(ctx, param)
    return setting.brief if setting is not None and setting.help == unstyled(param.help or "") else ""


def setting_of(ctx: Any, param: Any) -> Setting[Any] | None:
    """What a flag sets; None for a flag of the command line alone."""
    key = max(param.opts, key=len).removeprefix("--")
    return _SECTIONS.get(ctx.command_path.partition(" ")[2], RUNS).settings.get(key) or RUNS.settings.get(key)


def _put_panels(screen: Screen, panels: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Each with its heading, the texts of all in one column."""
    terms = [term for rows in panels.values() for term, _ in rows]
    wide = max((len(term) for term in terms if len(term) <= _TERM_MAX), default=0)
    for panel, rows in panels.items():
        if rows:
            screen.heading(panel)
            screen.beside(rows, wide=wide)


def _put_examples(screen: Screen, examples: Sequence[str]) -> None:
    if examples:
        screen.heading("Example" if len(examples) == 1 else "Examples")
        screen.as_written("\n".join(examples))


def _by_panel(params: Iterable[Any]) -> Mapping[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for param in params:
        found.setdefault(getattr(param, "rich_help_panel", None) or _OTHERS, []).append(param)
    return found


def _row(ctx: Any, param: Any, is_short: bool) -> tuple[str, str]:
    return (_short_term(ctx, param), brief_of(ctx, param)) if is_short else _record(ctx, param)


def _record(ctx: Any, param: Any) -> tuple[str, str]:
    """How a parameter is written, without its type, and what it is."""
    term, text = param.get_help_record(ctx)
    said = _DEFAULT.sub(r" Default: \1.", unstyled(text).replace("  [required]", ""))
    return _TYPE.sub("", term), said


def _short_term(ctx: Any, param: Any) -> str:
    """The flag with what stands for its value: a word, where that is too long."""
    flag = max(param.opts, key=len)
    term = _record(ctx, param)[0].rpartition(", ")[2]
    if len(term) <= _TERM_MAX:
        return term
    name, equals, _ = term.removeprefix(f"{flag} ").partition("=")
    return f"{flag} {name}=..." if equals else f"{flag} {flag.rpartition('-')[2].upper()}"


class HelpedCommand(TyperCommand):
    """A command whose help is drawn here."""

    def get_help(self, ctx: Any) -> str:
        """What `--help` shows."""
        return command_screen(ctx)


class _HelpedGroup:
    def get_help(self, ctx: Any) -> str:
        """What `--help` shows."""
        return group_screen(ctx)


def helped_group(kind: type[TyperGroup]) -> type[TyperGroup]:
    """A group of commands like `kind`, whose help is drawn here."""
    has_own = "get_help" in vars(kind) or issubclass(kind, _HelpedGroup)
    return kind if has_own else type(f"Helped{kind.__name__}", (_HelpedGroup, kind), {})


def install_help(commands: typer.Typer) -> None:
    """Has all `commands`, those of groups among them, show their help so."""
    for command in commands.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = HelpedCommand
    kind = commands.info.cls
    commands.info.cls = helped_group(kind if isinstance(kind, type) else TyperGroup)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            install_help(group.typer_instance)


_PROGRAM_EXAMPLES: Final = (
    "orchestrator run prompts.jsonl --endpoint local:handlers.py:caption",
    "orchestrator run prompts.jsonl --endpoint abc123 --output results.jsonl",
    "orchestrator retry prompts --where class=timed_out",
)


def front_page(ctx: Any, panels: Sequence[str]) -> str:
    """The help of the whole program; `panels` in their order."""
    screen = Screen()
    screen.paragraph(f"Usage: orchestrator COMMAND ...  {first_sentence(ctx.command.help or '')}.")
    found = panels_of(ctx)
    wide = max(len(name) for rows in found.values() for name, _ in rows)
    for panel in panels:
        screen.heading(panel, is_close=panel == panels[0])  # the whole has to fit a screen
        screen.beside(found[panel], wide=wide)
    screen.beside([("help", f"All of a COMMAND, or about: {', '.join(TOPICS)}")], wide=wide)
    screen.heading("Examples")
    screen.as_written("\n".join(_PROGRAM_EXAMPLES))
    return str(screen)
