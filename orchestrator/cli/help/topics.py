"""The topics of `orchestrator help TOPIC`: what several commands have in common, one page each."""

import re
from collections.abc import Callable, Mapping
from itertools import zip_longest
from typing import Final

from orchestrator.cli.help.exit_codes import EXIT_CODES
from orchestrator.cli.help.screen import Screen
from orchestrator.core.jobs.lifecycle import State
from orchestrator.core.limits.limit_text import format_limit
from orchestrator.core.limits.rate_pacer import CONTRACT_LIMITS

FILTER_FIELDS: Final = (
    ("state", ", ".join(f"`{state}`" for state in State), "`=` `!=`"),
    ("class", "why a job failed or was cancelled: a word of [type](#errors) in the errors file", "`=` `!=`"),
    ("cluster", "the kind of its failure, as `failures` names it: `cluster=0f3a52c6d1e9`", "`=` `!=`"),
    (
        "retried",
        "the kind of a failure, by the same name, after which it was tried again, whatever has become of it since",
        "`=` `!=`",
    ),
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


_LINK: Final = re.compile(r"\[([^]]*)\]\([^)]*\)")


def topic_screen(topic: str) -> str:
    """The page of a topic."""
    screen = Screen()
    TOPICS[topic](screen)
    return str(screen)


def _filters(screen: Screen) -> None:
    screen.heading("Filters: which jobs are meant, after --where")
    screen.as_written(
        "orchestrator jobs prompts --where 'state=failed attempts>2'\n"
        "orchestrator retry prompts --where 'class=timed_out or error~\"CUDA out\"'\n"
        "orchestrator results prompts --where 'input.lang=de id^=night-'"
    )
    screen.gap()
    screen.paragraph(
        "Terms stand side by side (all have to be met), or are joined by and, or, not and parentheses. A value with"
        " spaces, parentheses or quotation marks stands in double quotes."
    )
    screen.heading("Fields")
    screen.beside([(name, f"{_unmarked(means)}; {_unmarked(compared)}") for name, means, compared in FILTER_FIELDS])
    screen.gap()
    screen.paragraph(
        "~ does not tell capital letters from small ones. What a job does not have meets no comparison, and so meets"
        " every not, != and !~."
    )


def _durations(screen: Screen) -> None:
    screen.heading("Durations, times and amounts")
    screen.beside(
        [
            ("D", "A number with a unit: 250ms, 90s, 30m, 24h, 7d. Without a unit it is seconds."),
            ("TIME", "06:00 (the next one, here), 06:00 Europe/Berlin, 06:00Z, or a time stamp with its zone."),
            ("AMOUNT, PRICE", "A plain number, in the currency in which you think of the price."),
            ("P%", "A share: 50%."),
        ]
    )
    screen.heading("Limits: OP=N/SECONDS[:CONCURRENT]")
    screen.paragraph(
        "At most N requests of an operation in any SECONDS seconds, and CONCURRENT of them at once, as in"
        " run=500/10:100. Where nothing else is said, these are kept for each endpoint:"
    )
    screen.gap()
    limits = [format_limit(operation, limit) for operation, limit in CONTRACT_LIMITS.items()]
    half = (len(limits) + 1) // 2
    pairs = zip_longest(limits[:half], limits[half:], fillvalue="")
    screen.as_written("\n".join(f"{left:<24}{right}".rstrip() for left, right in pairs))


def _configuration(screen: Screen) -> None:
    screen.heading("Configuration: where a setting comes from")
    screen.paragraph("The first place that has it wins:")
    screen.beside(
        [
            ("1. the flag", "--max-attempts 5"),
            ("2. the environment", "ORCHESTRATOR_MAX_ATTEMPTS=5"),
            ("3. the file", "max-attempts = 5"),
        ]
    )
    screen.gap()
    screen.paragraph(
        "The file is that of --config or ORCHESTRATOR_CONFIG, else orchestrator.toml in the current folder. Its keys"
        " are the names of flags; each command takes those that it has. `orchestrator init` writes one."
    )
    screen.gap()
    screen.as_written(
        'endpoint = "abc123"\nttl = "6h"                  # durations: text, or a number of seconds\n'
        'limit = ["run=500/10:100"]  # a list, or one text\nrequire-output = true\n\n'
        "[endpoints.abc123]          # of one endpoint, over what the file says of all\nprice-per-second = 0.00031"
    )
    screen.heading("Variables")
    screen.beside(
        [
            ("ORCHESTRATOR_API_KEY", "The API key, which stands in the environment only; else RUNPOD_API_KEY."),
            ("PGPASSWORD", "The password of a ledger on a server; or PGPASSFILE, a file of such."),
            ("ORCHESTRATOR_WEBHOOK_KEY", "64 hex digits: what webhooks of such a ledger are signed by."),
            ("ORCHESTRATOR_<FLAG>", "Any flag: in capitals, with underscores."),
            ("HTTPS_PROXY, NO_PROXY", "The proxy for the service, as other programs read them."),
            ("NO_COLOR", "Set to anything: no colours."),
        ]
    )


def _exit_codes(screen: Screen) -> None:
    screen.heading("Exit codes")
    screen.beside([(f"{each.code:>3}", _unmarked(each.brief)) for each in EXIT_CODES])
    screen.gap()
    screen.paragraph(
        "After 1 (with --retry-failed), 3, 4, 70 and an interruption the same command can be given again, and goes on."
        " A reader that has enough (orchestrator results NAME | head) is no error."
    )


def _endpoints(screen: Screen) -> None:
    screen.heading("Endpoints: what --endpoint takes")
    screen.beside(
        [
            ("abc123", "The id of an endpoint: small letters and digits."),
            ("captions", "Its name, which is looked up once among the account's endpoints."),
            (
                "local:FILE.py:FUNCTION",
                "A function of your own, run here by the embedded emulator.",
            ),
        ]
    )
    screen.gap()
    screen.paragraph(
        "The API key comes from ORCHESTRATOR_API_KEY, else RUNPOD_API_KEY. Several accounts have tables [profile.NAME]"
        " in the file, and --profile NAME chooses one."
    )
    screen.gap()
    screen.paragraph("A whole service without an account, for this program and the official SDK:")
    screen.as_written("orchestrator emulate --handler handlers.py:caption --workers 8")


def _input(screen: Screen) -> None:
    screen.heading("Input: what a row is")
    screen.paragraph("Files of JSON lines, CSV, TSV, Parquet, a JSON array, OpenAI Batch, or a folder of texts.")
    screen.gap()
    screen.paragraph("A line of JSON is the input itself, or a job with an object `input` in it:")
    screen.as_written(
        '{"prompt": "a lighthouse in fog", "steps": 30}\n{"custom_id": "night-17", "input": {"prompt": "a lighthouse"}}'
    )
    screen.gap()
    screen.paragraph("A row of a table has its columns as fields, or those that --map makes of them:")
    screen.as_written("--id-field sku --map 'prompt=a photo of {{ row.title }}'")
    screen.heading("Results, in the order of the input")
    screen.as_written('{"custom_id":"night-17","job_id":"0f0e...-u1","status":"COMPLETED","output":{"n":3}, ...}')
    screen.gap()
    screen.paragraph(
        "What failed for good is in OUTPUT.errors.jsonl. The ending of OUTPUT says in which format results are written:"
        " .jsonl, .csv, .tsv, .parquet, each also packed (.gz, .zst)."
    )


def _completion(screen: Screen) -> None:
    screen.heading("Completion: the shell knows commands, flags and the names of runs")
    screen.beside(
        [
            ("orchestrator --install-completion", "Installs it for the current shell."),
            ("orchestrator --show-completion", "Prints it, to be copied."),
        ]
    )


TOPICS: Final[Mapping[str, Callable[[Screen], None]]] = {
    "input": _input,
    "endpoints": _endpoints,
    "filters": _filters,
    "durations": _durations,
    "configuration": _configuration,
    "exit-codes": _exit_codes,
    "completion": _completion,
}
"""Each writes its page."""


def _unmarked(markdown: str) -> str:
    return _LINK.sub(r"\1", markdown).replace("`", "")
