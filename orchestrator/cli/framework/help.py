"""How the help of all commands looks: no types beside names, and an example with each."""

from collections.abc import Mapping
from typing import Any, Final

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from orchestrator.api.emulation import flags
from orchestrator.cli.output import theme
from orchestrator.settings import run_flags
from orchestrator.settings.plan_flags import EXECUTION_TIME, WORKERS

EXAMPLES: Final[Mapping[str, str]] = {
    "run": f"run prompts.jsonl {run_flags.ENDPOINT} abc123 {run_flags.OUTPUT} results.jsonl",
    "plan": f"plan prompts.jsonl {run_flags.ENDPOINT} abc123 {EXECUTION_TIME} 45s {WORKERS} 10",
    "resume": "resume prompts",
    "serve": f"serve {run_flags.LEDGER} batches.db",
    "apply": "apply captions.toml --check",
    "tick": f"tick {run_flags.LEDGER} batches.db",
    "trigger": "trigger captions --at 2026-03-29 --wait",
    "backfill": "backfill captions --from 2026-03-01 --to 2026-03-14",
    "schedules list": "schedules",
    "schedules next": "schedules next captions",
    "schedules history": "schedules history captions",
    "schedules check": "schedules check",
    "schedules pause": "schedules pause captions --note stocktaking --until 2026-04-01",
    "schedules continue": "schedules continue captions --catch-up",
    "schedules remove": "schedules remove captions",
    "flows list": "flows list captions --state failed",
    "flows show": "flows show captions@20260329T003000Z",
    "flows lineage": "flows lineage captions@20260329T003000Z night-17",
    "flows rerun": "flows rerun captions@20260329T003000Z --from embed --failed",
    "status": "status",
    "doctor": "doctor prompts",
    "failures": "failures prompts",
    "results": "results prompts > results.jsonl",
    "watch": "watch prompts",
    "progress": "progress prompts",
    "verify": f"verify {run_flags.OUTPUT} results.jsonl",
    "pause": "pause prompts",
    "stop": "stop",
    "unpause": "unpause prompts",
    "continue": "continue prompts",
    "brakes set": "brakes set prompts --budget 50",
    "brakes show": "brakes show prompts",
    "cancel": "cancel prompts",
    "retry": "retry prompts",
    "priority": "priority prompts 5",
    "emulate": f"emulate {flags.HANDLER} handlers.py:caption {flags.WORKERS} 8",
    "runs list": "runs",
    "runs show": "runs show prompts",
    "runs pause": "runs pause prompts",
    "runs unpause": "runs unpause prompts",
    "runs continue": "runs continue prompts",
    "runs cancel": "runs cancel prompts",
    "runs recheck": "runs recheck prompts --schema caption.schema.json --dry-run",
    "runs retry": "runs retry prompts",
    "runs priority": "runs priority prompts 5",
    "runs resend": "runs resend prompts --outstanding",
    "runs rename": "runs rename prompts captions",
    "runs delete": "runs delete prompts",
    "runs tidy": "runs tidy",
    "runs export": f"runs export prompts {run_flags.OUTPUT} results.jsonl",
    "jobs list": "jobs list prompts --where state=failed",
    "jobs show": "jobs show prompts night-17",
    "jobs cancel": "jobs cancel prompts --where 'line>500'",
    "jobs retry": "jobs retry prompts --where class=timed_out",
    "limits show": "limits show",
    "limits set": "limits set prompts run=500/10",
    "limits reset": "limits reset prompts run",
    "ledger info": "ledger info",
    "ledger backup": "ledger backup copy.db",
    "ledger compact": "ledger compact",
    "api run": "api run abc123 --input prompt.json",
    "api runsync": """api runsync abc123 --input '{"prompt": "a cat"}'""",
    "api status": "api status abc123 JOB",
    "api stream": "api stream abc123 JOB",
    "api health": "api health abc123",
    "api requests": "api requests abc123",
    "api cancel": "api cancel abc123 JOB",
    "api retry": "api retry abc123 JOB",
    "api purge": "api purge abc123",
    "api openai": "api openai abc123 /v1/chat/completions --input body.json",
    "pods create": "pods create trainer --image me/trainer:2 --gpu 'NVIDIA L4' --env HF_TOKEN=env:HF_TOKEN --wait",
    "pods modify": "pods modify trainer --name night-trainer --lock",
    "pods list": "pods list",
    "pods show": "pods show trainer",
    "pods logs": "pods logs trainer --tail 20 --follow",
    "pods start": "pods start trainer --wait",
    "pods stop": "pods stop trainer",
    "pods restart": "pods restart trainer",
    "pods terminate": "pods terminate trainer",
    "endpoints create": "endpoints create --template TEMPLATE --workers-max 3 --wait",
    "endpoints update": "endpoints update abc123 --workers-max 10",
    "endpoints list": "endpoints list",
    "endpoints show": "endpoints show abc123",
    "endpoints workers": "endpoints workers abc123",
    "endpoints logs": "endpoints logs abc123 WORKER --follow",
    "endpoints open": "endpoints open captions",
    "endpoints delete": "endpoints delete abc123",
    "templates save": "templates save captions --image me/captions:3 --container-disk 20 --serverless",
    "templates show": "templates show captions",
    "templates delete": "templates delete captions",
    "templates list": "templates list",
    "secrets create": "secrets create hf_token --value env:HF_TOKEN",
    "secrets rotate": "secrets rotate SECRET --value env:HF_TOKEN",
    "secrets delete": "secrets delete SECRET",
    "secrets list": "secrets list",
}
"""By command, without the name of the program."""


def _no_type(ctx: Any) -> None:
    """Nothing beside the name of an argument."""


def _use_colours() -> None:
    """Gives Typer colours that can be read on white, too: it has no other place to choose them."""
    from typer import rich_utils

    for name in ("STYLE_OPTION", "STYLE_SWITCH", "STYLE_COMMANDS_TABLE_FIRST_COLUMN"):
        setattr(rich_utils, name, f"bold {theme.BUSY}")
    for name in ("STYLE_TYPES", "STYLE_OPTION_ENVVAR", "STYLE_NEGATIVE_OPTION", "STYLE_NEGATIVE_SWITCH"):
        setattr(rich_utils, name, theme.DOUBTFUL)
    rich_utils.STYLE_USAGE = "bold"


class _Tidy:
    """Commands whose help shows names without types: what an option takes is said by its own word for it."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Writes it."""
        _use_colours()
        super().format_help(ctx, formatter)  # type: ignore[misc]

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if isinstance(param, TyperArgument):
                vars(param)["display_type_rich"] = _no_type
            elif isinstance(param, TyperOption) and param.metavar is None and param.is_flag:
                param.metavar = ""
        return params


class TidyCommand(_Tidy, TyperCommand):
    """A command."""


def tidy_group(kind: type[TyperGroup]) -> type[TyperGroup]:
    """A group of commands like `kind`."""
    return kind if issubclass(kind, _Tidy) else type(f"Tidy{kind.__name__}", (_Tidy, kind), {})


def tidy(commands: typer.Typer, path: str = "") -> None:
    """Has all `commands`, those of groups among them, show their help so."""
    for command in commands.registered_commands:
        if command.cls in (None, TyperCommand):
            command.cls = TidyCommand
        name = command.name or getattr(command.callback, "__name__", "").rstrip("_").replace("_", "-")
        if example := EXAMPLES.get(f"{path}{name}"):
            command.epilog = command.epilog or f"Example: [bold]orchestrator {example}[/]"
    kind = commands.info.cls
    commands.info.cls = tidy_group(kind if isinstance(kind, type) else TyperGroup)
    for group in commands.registered_groups:
        if group.typer_instance is not None:
            tidy(group.typer_instance, f"{path}{group.name} ")
