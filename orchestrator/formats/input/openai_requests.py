"""What is wrong with the requests of a batch, as OpenAI's Batch API tells it: with codes and lines, before any is sent.

What memory it takes goes by how many requests there are, and not by how long they are.
"""

import hashlib
from collections.abc import Collection
from typing import BinaryIO, Final

import msgspec

from orchestrator.core.batch_api.posted_batch import PostedError
from orchestrator.errors import keyword_name, with_settings_named
from orchestrator.formats.input.jsonl import RowReader, members_of
from orchestrator.formats.input.lines import read_lines
from orchestrator.formats.input.rows import Row, RowProblem
from orchestrator.formats.text.compression import DamagedInputError

ERRORS_MAX: Final = 100
"""So many are told."""

_DIGEST_BYTES: Final = 12

MODEL_PARAM: Final = "body.model"


class _Model(msgspec.Struct, frozen=True):
    model: str | None = None
    stream: object = None


class _Members(msgspec.Struct, frozen=True):
    url: str = ""
    body: _Model = _Model()


_members: Final = msgspec.json.Decoder(_Members)


class CheckedRequests(msgspec.Struct, frozen=True, kw_only=True):
    """What a file of requests holds."""

    rows: int
    model: str | None
    """That of all of them; None where nothing is good of them."""

    errors: tuple[PostedError, ...]
    """What is wrong, as far as it is told; none where all is well."""


def first_model(stream: BinaryIO, line_bytes_max: int) -> str | None:
    """Which model the first request is for; None where it does not say."""
    try:
        first = next(read_lines(stream, _model_of, line_bytes_max=line_bytes_max), None)
    except DamagedInputError:
        return None
    return None if isinstance(first, RowProblem) else first


def _model_of(_number: int, line: bytes) -> str | None:
    try:
        return _members.decode(line).body.model
    except (msgspec.DecodeError, RecursionError):
        return None


def check_requests(
    stream: BinaryIO, reader: RowReader, *, url: str, models: Collection[str], rows_max: int, line_bytes_max: int
) -> CheckedRequests:
    """Reads all requests of a file, which are to be for `url` and for one of `models`, each as `reader` wants it."""
    check = _Check(reader, url, models)
    try:
        for item in read_lines(stream, check.read, line_bytes_max=line_bytes_max):
            check.count(item)
            if check.rows > rows_max:
                check.add("too_many_requests", f"The file has more than {rows_max:,} requests.", item.line)
                break
    except (DamagedInputError, OSError) as error:
        check.add("unreadable_file", f"From here on the file cannot be read: {error}", None)
    if not check.rows:
        check.add("empty_file", "The file has no requests.", None)
    return CheckedRequests(rows=check.rows, model=check.model, errors=tuple(check.errors))


class _Check:
    """Looks at one request after the other."""

    def __init__(self, reader: RowReader, url: str, models: Collection[str]) -> None:
        self._reader = reader
        self._url = url
        self._models = models
        self._ids: set[bytes] = set()
        self._is_told = False
        self.rows = 0
        self.model: str | None = None
        self.errors: list[PostedError] = []

    def add(self, code: str, message: str, line: int | None, param: str | None = None) -> None:
        """Something is wrong."""
        if len(self.errors) < ERRORS_MAX:
            self.errors.append(PostedError(code=code, message=message, line=line, param=param))

    def count(self, item: Row | RowProblem) -> None:
        """Another line was read. What `read` was not asked for is told here."""
        self.rows += 1
        if isinstance(item, RowProblem) and not self._is_told:
            self.add("request_too_large" if item.is_oversize else "invalid_json_line", _plain(item.text), item.line)
        self._is_told = False

    def read(self, number: int, text: bytes) -> Row | RowProblem:
        """The request on a line. What is wrong with it is told."""
        row = self._reader.read_request(number, text)
        if isinstance(row, RowProblem):
            self._is_told = True
            is_json = not isinstance(members_of(number, text), RowProblem)
            self.add("invalid_request" if is_json else "invalid_json_line", _plain(row.text), number)
            return row
        if (error := self._error_of(number, text, row.custom_id)) is not None and len(self.errors) < ERRORS_MAX:
            self.errors.append(error)
        return row

    def _error_of(self, number: int, text: bytes, custom_id: str) -> PostedError | None:
        try:
            asked = _members.decode(text)
        except msgspec.ValidationError:
            told = "The body has a model, which is a text."
            return PostedError(code="invalid_request", message=told, line=number, param=MODEL_PARAM)
        digest = hashlib.sha256(custom_id.encode()).digest()[:_DIGEST_BYTES]
        if digest in self._ids:
            told = "The custom_id for this request is a duplicate of another request in this batch."
            return PostedError(code="duplicate_custom_id", message=told, line=number, param="custom_id")
        self._ids.add(digest)
        if asked.url != self._url:
            told = f"The URL provided for this request does not match the batch endpoint, {self._url}."
            return PostedError(code="invalid_url", message=told, line=number, param="url")
        if asked.body.stream is True:
            told = "A request of a batch has no stream; leave stream out of the body."
            return PostedError(code="invalid_request", message=told, line=number, param="body.stream")
        return self._error_of_model(number, asked.body.model)

    def _error_of_model(self, number: int, model: str | None) -> PostedError | None:
        if model is None:
            told = "The body has no model."
            return PostedError(code="missing_required_parameter", message=told, line=number, param=MODEL_PARAM)
        if model not in self._models:
            known = ", ".join(self._models) or "none"
            told = f"The model {model:.80} is not served here; there is: {known:.400}"
            return PostedError(code="model_not_found", message=told, line=number, param=MODEL_PARAM)
        if self.model is None:
            self.model = model
        if model != self.model:
            told = f"All requests of a batch are for one model; the first one is for {self.model:.80}."
            return PostedError(code="mismatched_model", message=told, line=number, param=MODEL_PARAM)
        return None


def _plain(text: str) -> str:
    return with_settings_named(text, keyword_name)
