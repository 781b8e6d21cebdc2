"""Reads JSON Lines, and checks a row of any format: its form, its id, its policy, and that it is not too large.

One JSON object a line, UTF-8, in one of two forms:

- Job form: the line has an `input` that is an object. Beside it may stand `custom_id`, `policy`, `s3Config`,
  `priority` and `metadata`, and nothing else. The `metadata`, an object, is not sent: it stands in the results.
- Bare form: the whole object is the input, but for a top-level `custom_id`, which names the row and is not sent.

A file keeps to one form. An `input` that is not an object (`{"input": "text"}`) makes no job form: it is a parameter of
the worker that happens to have this name, unless the line is meant as a job, which shows in a null, in a `policy`,
`s3Config` or `webhook` beside it, or in a line of job form before it. Then it is refused.

Blank lines, a byte order mark, CR LF, and null for a `policy`, `s3Config` or `priority` that is not there are fine.
Problems are values, one for each bad line, so that all are seen.
"""

import difflib
import hashlib
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Final

import msgspec

from orchestrator.core.jobs.segments import RESUME, RESUME_BYTES
from orchestrator.core.lanes.openai import check_not_streamed, direct_request
from orchestrator.core.lanes.via import Via
from orchestrator.core.limits.fair_share import PRIORITY_MAX, PRIORITY_MIN
from orchestrator.core.service.row_variables import RowVariables
from orchestrator.core.service.s3_config import UnusableVariables, decode_s3_config
from orchestrator.core.text.durations import Policy, decode_policy, encode_policy, merge_policies
from orchestrator.core.text.json_compact import compact
from orchestrator.formats.input.custom_id import STANDS_TWICE, decode_custom_id, without_custom_id
from orchestrator.formats.input.lines import TOO_LARGE_ADVICE
from orchestrator.formats.input.openai_batch import LOOKS_LIKE_IT, METADATA, input_of, is_request
from orchestrator.formats.input.rows import OversizeError, Row, RowProblem, problem_of
from orchestrator.formats.text.json_text import canonical, json_kind, json_problem
from orchestrator.formats.text.value_text import NESTED_TOO_DEEPLY
from orchestrator.units import MIB

BODY_BYTES_MAX: Final = 10 * MIB
"""What the service takes as the body of one request."""

LINE_BYTES_EXTRA: Final = 64 * 1024
"""How much longer than a body its line may be: custom_id, references, white space."""

DERIVED_ID_CHARS: Final = 16

NO_POLICY: Final = Policy()

METADATA_BYTES_MAX: Final = 64 * 1024
"""What a row may carry unsent into its result."""

_JOB_KEYS: Final = ("input", "custom_id", "policy", "s3Config", "priority", METADATA)
_NEAR: Final = 0.8
"""How alike a key must be to be a mistyped `input`: "inputs" and "imput" are, "output" is not."""

_JOB_FORM_SIGNS: Final = frozenset({"policy", "s3Config", "webhook"})


class _Form(StrEnum):
    """How the lines of a file are written, as errors call it."""

    JOB = 'in job form ({"input": {...}, ...})'
    BARE = "a bare input (no input object in it)"


_Priority = Annotated[int, msgspec.Meta(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
_members: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def members_of(number: int, text: bytes) -> dict[str, msgspec.Raw] | RowProblem:
    """The members of the JSON object that stands on a line, or why it is none."""
    try:
        if not text.isascii():
            text.decode()
        return _members.decode(text)
    except RecursionError:
        return RowProblem(line=number, text=NESTED_TOO_DEEPLY)
    except ValueError:
        problem = json_problem(text) or f"{json_kind(text)}, not an object; write one object a line"
        return RowProblem(line=number, text=problem)


class RowReader:
    """Reads line after line; remembers which form the file is in, and since which line.

    `variables` resolves the references of `s3Config`. `run_policy` applies where a row's own policy is silent, and
    `webhook_bytes` is the length of the webhook URL (0: none): both only count towards `body_bytes_max`, the limit of
    a whole request body by `/run`. `is_resumable`: the inputs are given a `resume`, which has to fit in, too. `vias`:
    by which lanes the jobs are to reach their workers, all of which have to take each row.
    """

    def __init__(
        self,
        variables: RowVariables,
        run_policy: Policy,
        webhook_bytes: int,
        body_bytes_max: int,
        is_resumable: bool = False,
        vias: Sequence[Via] = (Via.QUEUE,),
    ) -> None:
        self._variables = variables
        self._run_policy = run_policy
        self._run_policy_bytes = _policy_bytes(run_policy)
        self._webhook_bytes = webhook_bytes and len(b',"webhook":""') + webhook_bytes
        self._body_bytes_max = min(via.body_bytes_max(body_bytes_max) for via in vias)
        self._is_resumable = is_resumable
        self._vias = frozenset(vias)
        self._has_queue = any(via.has_queue for via in vias)
        self._past_queue = next((via for via in vias if not via.has_queue), None)
        self._form: _Form | None = None
        self._form_line = 0

    def read(self, number: int, text: bytes) -> Row | RowProblem:
        """The row that the line `text`, without white space around it, is; or why it is none."""
        return self._read(number, text, self._row)

    def read_request(self, number: int, text: bytes) -> Row | RowProblem:
        """The same of a request of an OpenAI Batch file."""
        return self._read(number, text, self._of_request)

    def _read(
        self, number: int, text: bytes, row_of: Callable[[int, bytes, Mapping[str, msgspec.Raw]], Row]
    ) -> Row | RowProblem:
        members = members_of(number, text)
        if isinstance(members, RowProblem):
            return members
        try:
            return row_of(number, text, members)
        except RecursionError:
            return RowProblem(line=number, text=NESTED_TOO_DEEPLY)
        except ValueError as error:
            return problem_of(number, error)

    def _of_request(self, number: int, _text: bytes, members: Mapping[str, msgspec.Raw]) -> Row:
        if Via.HTTP in self._vias:
            raise ValueError(f"requests of an OpenAI Batch file go by <setting via={Via.OPENAI}>")
        custom_id, input_ = input_of(members)
        if self._has_queue:
            check_not_streamed(bytes(members["body"]))
        return self.row_of(number, input_, custom_id, _given(members, METADATA))

    def _row(self, number: int, text: bytes, members: Mapping[str, msgspec.Raw]) -> Row:
        custom_id = decode_custom_id(bytes(members["custom_id"])) if "custom_id" in members else None
        policy = s3_config = metadata = None
        priority = 0
        extra_bytes = self._run_policy_bytes
        if self._is_job_form(members):
            self._keep_to_one_form(number, _Form.JOB)
            _refuse_unknown_keys(members)
            input_ = bytes(members["input"])
            policy, policy_bytes = self._policy(_given(members, "policy"))
            s3_config, s3_config_bytes = self._s3_config(_given(members, "s3Config"))
            extra_bytes = policy_bytes + s3_config_bytes
            priority = _priority(_given(members, "priority"))
            metadata = metadata_of(_given(members, METADATA))
        else:
            _refuse_mistaken(members)
            self._keep_to_one_form(number, _Form.BARE)
            input_ = text if custom_id is None else _bare_input(text)
        return self._checked(number, input_, custom_id, policy, s3_config, extra_bytes, priority, metadata)

    def row_of(self, number: int, input_: bytes, custom_id: str | None, metadata: bytes | None = None) -> Row:
        """The row with this input, the text of a JSON object. Raises `ValueError` in words for its author."""
        return self._checked(
            number, input_, custom_id, None, None, self._run_policy_bytes, metadata=metadata_of(metadata)
        )

    def _checked(
        self,
        number: int,
        input_: bytes,
        custom_id: str | None,
        policy: bytes | None,
        s3_config: bytes | None,
        extra_bytes: int,
        priority: int = 0,
        metadata: bytes | None = None,
    ) -> Row:
        if self._is_resumable:
            extra_bytes += RESUME_BYTES
            if RESUME in _members.decode(input_):
                raise ValueError(
                    f'its input has a "{RESUME}"; under this key a resumable job is given what it goes on from: use'
                    " another one"
                )
        if Via.OPENAI in self._vias:
            direct_request(input_)
        if Via.BATCH in self._vias and (policy is not None or s3_config is not None):
            raise ValueError(
                f"a request in a batch has an input and nothing else; <setting via={Via.QUEUE}> takes more"
            )
        if self._past_queue is not None:
            _refuse_of_queue(self._past_queue, policy, s3_config, is_beside_queue=self._has_queue)
        self._check_size(len(input_) + extra_bytes)
        form = canonical(input_)
        if form == b"{}" and self._vias != {Via.HTTP}:
            raise ValueError("the input is empty; the service would drop the job")
        digest = hashlib.sha256(form)
        return Row(
            line=number,
            custom_id=digest.hexdigest()[:DERIVED_ID_CHARS] if custom_id is None else custom_id,
            derived=custom_id is None,
            input=input_,
            digest=digest.digest(),
            policy=policy,
            s3_config=s3_config,
            priority=priority,
            metadata=metadata,
        )

    def _is_job_form(self, members: Mapping[str, msgspec.Raw]) -> bool:
        if "input" not in members:
            return False
        raw = bytes(members["input"])
        if raw.startswith(b"{"):
            return True
        if raw == b"null" or self._form is _Form.JOB or not _JOB_FORM_SIGNS.isdisjoint(members):
            raise ValueError(f"input must be an object, not {json_kind(raw)}")
        return False

    def _keep_to_one_form(self, number: int, form: _Form) -> None:
        if self._form is None:
            self._form, self._form_line = form, number
        elif self._form is not form:
            raise ValueError(f"this line is {form}, but line {self._form_line} is {self._form}; keep to one form")

    def _policy(self, raw: bytes | None) -> tuple[bytes | None, int]:
        """The row's policy as it is stored, and how many bytes the merged one adds to the body."""
        own = NO_POLICY if raw is None else decode_policy(raw)
        if own == NO_POLICY:
            return None, self._run_policy_bytes
        return encode_policy(own), _policy_bytes(merge_policies(self._run_policy, own))

    def _s3_config(self, raw: bytes | None) -> tuple[bytes | None, int]:
        """The row's s3Config as it is stored, and how many bytes the resolved one adds to the body."""
        if raw is None:
            return None, 0
        config = decode_s3_config(raw)
        try:
            resolved = self._variables.resolve(config)
        except UnusableVariables as error:
            raise ValueError(error.with_advice) from None
        return msgspec.json.encode(config), len(b',"s3Config":') + len(msgspec.json.encode(resolved))

    def _check_size(self, part_bytes: int) -> None:
        body_bytes = len(b'{"input":}') + part_bytes + self._webhook_bytes
        if body_bytes > self._body_bytes_max:
            size = f"{body_bytes:,} bytes, over the limit of {self._body_bytes_max:,}"
            raise OversizeError(f"its request would have {size}; {TOO_LARGE_ADVICE}")


def _refuse_of_queue(via: Via, policy: bytes | None, s3_config: bytes | None, *, is_beside_queue: bool) -> None:
    """What a row asks for that a request past the queue cannot say. `is_beside_queue`: it may go to a queue as well,
    and its wishes about that hold there.
    """
    if is_beside_queue and s3_config is not None:
        raise ValueError(
            f"s3Config is for workers that take jobs from the service's queue, and a member of the pool has"
            f" <setting via={via}>, which goes past it"
        )
    own = NO_POLICY if policy is None else decode_policy(policy)
    if not is_beside_queue and (s3_config is not None or own != Policy(execution_timeout_ms=own.execution_timeout_ms)):
        raise ValueError(
            f"s3Config, ttl and lowPriority are for jobs in the service's queue, and <setting via={via}> goes past it"
        )


def _given(members: Mapping[str, msgspec.Raw], key: str) -> bytes | None:
    raw = bytes(members[key]) if key in members else b"null"
    return None if raw == b"null" else raw


def _priority(raw: bytes | None) -> int:
    if raw is None:
        return 0
    try:
        return msgspec.json.decode(raw, type=_Priority)
    except msgspec.ValidationError:
        wanted = f"a whole number from {PRIORITY_MIN} to {PRIORITY_MAX}"
        raise ValueError(f"priority must be {wanted}, not {raw.decode():.40}") from None


def metadata_of(raw: bytes | None) -> bytes | None:
    """What a row is to carry, as it is kept. Raises `ValueError` in words for its author."""
    if raw is None:
        return None
    if not raw.startswith(b"{"):
        raise ValueError(f"{METADATA} must be an object, not {json_kind(raw)}")
    metadata = compact(raw)
    if len(metadata) > METADATA_BYTES_MAX:
        raise ValueError(f"{METADATA} has {len(metadata):,} bytes, over the limit of {METADATA_BYTES_MAX:,}")
    return None if metadata == b"{}" else metadata


def _policy_bytes(policy: Policy) -> int:
    return 0 if policy == NO_POLICY else len(b',"policy":') + len(encode_policy(policy))


def _refuse_unknown_keys(members: Mapping[str, msgspec.Raw]) -> None:
    for key in members:
        if key == "webhook":
            raise ValueError("webhook cannot be set for a row; use <setting webhook-url> for the run")
        if key not in _JOB_KEYS:
            near = difflib.get_close_matches(key, _JOB_KEYS, n=1)
            advice = f"did you mean {near[0]}?" if near else f"a line in job form takes {', '.join(_JOB_KEYS)}"
            raise ValueError(f'unknown key "{key:.40}" beside input; {advice}')


def _refuse_mistaken(members: Mapping[str, msgspec.Raw]) -> None:
    """What would be a bare input, and is surely meant as something else."""
    if is_request(members):
        raise ValueError(LOOKS_LIKE_IT)
    others = [key for key in members if key not in _JOB_KEYS]
    if len(others) != 1 or not bytes(members[others[0]]).startswith(b"{"):
        return
    (key,) = others
    if difflib.get_close_matches(key.lower(), _JOB_KEYS[:1], n=1, cutoff=_NEAR):
        raise ValueError(f'"{key}": did you mean input? An input that has it is written {{"input": {{"{key}": ...}}}}')


def _bare_input(text: bytes) -> bytes:
    input_ = without_custom_id(text)
    if "custom_id" in _members.decode(input_):
        raise ValueError(STANDS_TWICE)
    return input_
