"""What has changed in each promise since the first version, for those who relied on its wording."""

from collections.abc import Mapping
from typing import Final

SINCE: Final = "0.1"

CHANGES: Final[Mapping[str, tuple[str, ...]]] = {
    "G1": (
        (
            "An answer that says nothing of the job (an HTML page, nothing, a bare error with 200, the record of another job) "
            "is asked for again until the retention has certainly run out. It was believed at the deadline, and failed the job."
        ),
        "A result that comes after its job was given up counts.",
        "Times that an earlier process wrote with a clock that was ahead are not believed.",
        "An endpoint that keeps results for a shorter time than agreed is believed less from then on.",
    ),
    "G2": (
        (
            "After the program was killed, only what had really been handed to the connection is uncertain, as long as the "
            "machine did not go down with it; being caught by our own crash counts against no job."
        ),
        "A request that was cut before all of it was written is no submission.",
        "What webhooks have brought is looked at before a job is opened again: its result may be among it.",
        "What a resume may pay again is said before it sends for an absence longer than the TTL, too.",
        "A process that was asleep reads what has come meanwhile before it calls anything unanswered.",
    ),
    "G3": (
        (
            "It holds for every row of the contract's table and down to one request a window, at round trips of up to 280 ms; "
            "the share that is used below 300 requests a window is stated with the figures."
        ),
    ),
    "G4": (
        (
            "It holds for a ledger that is reached by two names, and one that is deleted or moved under the program: that is "
            "noticed, and what the file held is written out beside it."
        ),
        "A lost terminal (SIGHUP) stops in order, as SIGTERM does.",
    ),
    "G5": (
        "A record that names another job than the one that was asked for is no result of this one.",
        "Where a service gives ids twice and sends webhooks, a row's output is what came with its own token.",
        "Which ids the service has given to which jobs is known after a restart, and to whoever takes over.",
        "An input whose result comes after it had failed stands among the results once the files are written again.",
    ),
    "G6": (
        "A webhook whose record names another job, or another webhook URL, changes nothing, although it holds a token.",
        "Where a service gives ids twice, the URL of a webhook goes before the id in its record.",
    ),
    "G7": (),
    "G8": ("Large outputs and inputs are read in pages bounded in bytes, and few at a time where the line is narrow.",),
    "G9": ("Schedules, stages and what is handed from one to the next are new.",),
    "G10": ("Resumable jobs are new.",),
    "G11": ("Pages that act are new.",),
    "G12": ("Pods are new.",),
    "G13": ("Chunks are new.",),
    "G14": ("Files made of outputs are new.",),
    "G15": ("The Batch API is new.",),
    "G16": ("Ledgers on a server are new.",),
    "G17": ("Ledgers that are copied to another place are new.",),
    "G18": ("Ledgers on a server are new.",),
}
