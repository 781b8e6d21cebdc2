"""What a filter can ask of a job, for the help and for the reference."""

from typing import Final

from orchestrator.core.jobs.lifecycle import State

FILTER_FIELDS: Final = (
    ("state", ", ".join(f"`{state}`" for state in State), "`=` `!=`"),
    ("class", "why a job failed or was cancelled: a word of [type](#errors) in the errors file", "`=` `!=`"),
    ("cluster", "the kind of its failure, as `failures` names it: `cluster=0f3a52c6d1e9`", "`=` `!=`"),
    ("id", "the `custom_id`", "`=` `!=` `^=` (begins with) `~` (contains) `!~`"),
    ("error", "the error message, as the worker wrote it", "as `id`"),
    ("attempts", "executions that came to an end, as in the files", "`=` `!=` `<` `<=` `>` `>=`"),
    ("line", "the line of the input", "as `attempts`"),
    (
        "ended",
        (
            "when the job ended: how long ago (`ended>2h`: more than two hours) or a time in UTC"
            " (`ended>2026-01-31T08:00`: later)"
        ),
        "`<` `<=` `>` `>=`",
    ),
    (
        "input.NAME",
        (
            "a member of the input, of an object in it (`input.prompt.text`), or of an array (`input.parts.0`); numbers"
            " are compared as numbers, all else as text"
        ),
        "all",
    ),
    ("meta.NAME", "the same, of the row's `metadata`", "all"),
)
"""The name, what it is, and how it can be compared, in Markdown."""
