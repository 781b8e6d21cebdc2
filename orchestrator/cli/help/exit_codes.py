"""What each exit code says, for the help and for the reference."""

from typing import Final, NamedTuple


class ExitCode(NamedTuple):
    """One, with what it means in Markdown."""

    code: int
    brief: str
    means: str
    """All of it, for the reference."""

    resumable: str = "yes"


EXIT_CODES: Final = (
    ExitCode(
        0,
        "All jobs succeeded, or the command has done what it was asked to.",
        "All jobs succeeded. `status`, `results`, `serve` and `emulate`: done. `doctor`: nothing that needs a person."
        " With `--detach`: the run is under way. `verify`: nothing is wrong.",
        "",
    ),
    ExitCode(
        1,
        "Some jobs failed or were cancelled; `verify`, `doctor`, `schedules check`, `plan`: something is wrong.",
        "The run finished, and some jobs failed or were cancelled. `verify`: something is wrong. `doctor`: something"
        " needs a person. `runs tidy`: something could not be put back. `plan`, and `run --dry-run`: something that was"
        " asked for cannot be kept.",
        "with `--retry-failed`",
    ),
    ExitCode(
        2,
        "Bad usage or input; nothing was sent.",
        "Bad usage or input; nothing was sent. Of a ledger on a server also: a standby answers, there is no ledger or"
        " schema, its owner has yet to bring that up to date, or the process at work has another webhook key.",
        "",
    ),
    ExitCode(
        3,
        "Stopped, as going on is pointless: the key is refused, the disk is full, nothing comes of it.",
        "Stopped because going on is pointless: the key is refused, or the password of the ledger's server; the"
        " endpoint unknown, the disk full (`serve` waits), the ledger read-only, locked, damaged, deleted or moved, or"
        " its server without what that had confirmed; no memory or threads left, a pipe for the files that nobody"
        " reads; or because nothing came of it (`--give-up-after`, `--stop-after-failures`). What was"
        " outstanding has been collected as far as the service let us.",
    ),
    ExitCode(
        4,
        "Busy: another process works on the ledger. Nothing was done; give it again later.",
        "Busy: another process works on the ledger, which is this to `serve` of one in a file, to a run of a `local:`"
        " function, and to whatever needs the ledger for itself; 64 processes serve one on a server already; or another"
        " one reads the input of the same run. Nothing was done; it can be given again later.",
    ),
    ExitCode(
        70,
        "A defect of this program; the traceback is in orchestrator-crash-PID.log.",
        "A defect of this program. A traceback is in `orchestrator-crash-PID.log` beside the ledger, or in the current"
        " folder; it holds neither the values of variables nor the API key.",
    ),
    ExitCode(130, "Interrupted by Ctrl-C.", "Interrupted by Ctrl-C (SIGINT)."),
    ExitCode(143, "Interrupted by SIGTERM.", "Interrupted by SIGTERM."),
    ExitCode(
        129,
        "Interrupted because the terminal was lost.",
        "Interrupted because the terminal was lost (SIGHUP). Under `nohup` the run goes on.",
    ),
)
