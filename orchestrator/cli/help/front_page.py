"""What `orchestrator --help` shows: every command on one line, by what it is for."""

from collections.abc import Sequence
from typing import Any, Final

from orchestrator.cli.help.command_screens import first_sentence, panels_of
from orchestrator.cli.help.screen import Screen
from orchestrator.cli.help.topics import TOPICS

EXAMPLES: Final = (
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
        screen.heading(panel)
        screen.beside(found[panel], wide=wide)
    screen.beside([("help", f"All of a COMMAND, or about: {', '.join(TOPICS)}")], wide=wide)
    screen.heading("Examples")
    screen.as_written("\n".join(EXAMPLES))
    return str(screen)
