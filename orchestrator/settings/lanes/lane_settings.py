"""What can be set of how jobs reach their workers. What is of the service's own batches, and the form of
chunks, stands in the file only.
"""

from functools import partial
from typing import Annotated, Final

import msgspec

from orchestrator.core.batches.terms import BatchTerms
from orchestrator.core.chunks.chunk_form import TEMPLATE, ChunkForm
from orchestrator.core.chunks.chunk_terms import ChunkTerms
from orchestrator.core.lanes.via import Via
from orchestrator.settings.parsers import brake_parsers, job_parsers, service_parsers
from orchestrator.settings.parsers.chunk_parsers import chunk_template, chunk_terms
from orchestrator.settings.parsers.job_parsers import duration
from orchestrator.settings.setting import Panel, Setting, setting_of
from orchestrator.settings.value_types import one_of, parsed, text, whole
from orchestrator.units import KIB

_TERMS: Final = BatchTerms()
"""By which batches are made where nobody says otherwise."""

_job: Final = partial(Setting, panel=Panel.JOBS)
_in_file: Final = partial(Setting, panel=Panel.JOBS, has_flag=False)


class LaneSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a run's settings that is about its lanes. Durations are in microseconds."""

    via: Annotated[
        Via,
        _job(
            "via",
            one_of(Via),
            "How jobs reach their workers. `queue`: by `/run`. `sync`: by `/runsync`, which holds the answer until the"
            " job has ended. `both`: [by both](lanes.md#by-both), for short jobs. `openai`: by"
            " [`/openai/*`](files.md#past-the-queue), where the answer to the request is the result; for workers that"
            " take requests of an OpenAI Batch file in no other way. `http`: each input is the body of a request to"
            " [a server at a URL](without-a-queue.md). `batch`: in [batches of the service](batch.md), which are"
            " cheaper and begin when it likes.",
        ),
    ] = Via.QUEUE
    path: Annotated[
        str,
        _job(
            "path",
            parsed("/PATH", service_parsers.parse_request_path),
            "With `--via http`: where requests go, below the URL of the endpoint.",
            default="the URL itself",
        ),
    ] = ""
    chunk: Annotated[
        ChunkTerms | None,
        _job(
            "chunk",
            chunk_terms(),
            "So many rows [travel together](chunks.md) as one job of the service, `16`, or as many as have inputs of so"
            " much, `256KiB`; for a handler that takes several at once. A chunk that fails is halved, until the bad row"
            " stands alone.",
            default="each row is a job of its own",
        ),
    ] = None
    chunk_input: Annotated[
        str,
        _in_file(
            "chunk-input",
            chunk_template(),
            'What [the input of a chunk](chunks.md) is: JSON in which `"{inputs}"` stands for the list of its rows\''
            ' inputs, or `"{rows}"` for one of their ids and inputs.',
        ),
    ] = TEMPLATE
    chunk_output: Annotated[
        str,
        _in_file(
            "chunk-output",
            text("MEMBER"),
            "Which member of the output has the list of the parts, one for each row.",
            default="the output itself is the list, or its member `items`",
        ),
    ] = ""
    batch_rows: Annotated[
        int,
        _in_file("batch-rows", whole(1), "How many rows [a batch](batch.md) has, at most."),
    ] = _TERMS.rows_max
    batch_call_bytes: Annotated[
        int,
        _in_file("batch-call-bytes", whole(KIB), "The longest body of a call that adds rows to a batch."),
    ] = _TERMS.call_bytes
    batch_active: Annotated[
        int,
        _in_file("batch-active", whole(1), "How many batches of ours an endpoint has at once, at most."),
    ] = _TERMS.active_max
    batch_queued: Annotated[
        int,
        _in_file("batch-queued", whole(1), "How many rows wait in all batches of an endpoint, at most."),
    ] = _TERMS.queued_max
    batch_retention_us: Annotated[
        int,
        _in_file(
            "batch-result-retention",
            duration(job_parsers.check_retention),
            "For how long the service keeps the result of a row in a batch, once that has ended; at least 1s. Nothing"
            " is published.",
        ),
    ] = _TERMS.retention_us
    batch_wait_us: Annotated[
        int,
        _in_file(
            "batch-wait",
            duration(),
            "So long after it was begun a batch goes, though rows that come later would fit in.",
        ),
    ] = _TERMS.wait_us
    batch_repeats: Annotated[
        int,
        _in_file(
            "batch-repeats",
            whole(0),
            "So few rows go by `/run` where they are all that is left to be sent, and each was executed before: hours"
            " are saved. `0`: each goes again in a batch.",
        ),
    ] = _TERMS.repeats_max

    batch_discount: Annotated[
        int | None,
        _in_file(
            "batch-discount",
            parsed("PERCENT", brake_parsers.parse_percentage, brake_parsers.format_percentage),
            "By how much a second of a worker costs less in a batch, as in `20%`: [costs, budgets and plans](batch.md)"
            " go by it.",
            default="nobody says",
        ),
    ] = None

    @property
    def chunk_form(self) -> ChunkForm:
        """What is sent for a chunk, and where the parts of its output are."""
        return ChunkForm(self.chunk_input, self.chunk_output)

    @property
    def batch_terms(self) -> BatchTerms:
        """By which its batches are made."""
        return BatchTerms(
            rows_max=self.batch_rows,
            call_bytes=self.batch_call_bytes,
            active_max=self.batch_active,
            queued_max=self.batch_queued,
            retention_us=self.batch_retention_us,
            wait_us=self.batch_wait_us,
            repeats_max=self.batch_repeats,
        )


CHUNK: Final[Setting[ChunkTerms]] = setting_of(LaneSettings, "chunk")
CHUNK_INPUT: Final[Setting[str]] = setting_of(LaneSettings, "chunk_input")
CHUNK_OUTPUT: Final[Setting[str]] = setting_of(LaneSettings, "chunk_output")
