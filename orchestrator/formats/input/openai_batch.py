"""OpenAI Batch files: their requests. Their results are written by `formats.output.openai_lines`.

A request becomes a job of a worker that takes `openai_route` and `openai_input`, as the service's vLLM worker does, so
that it is queued, retained and told of by webhook like any other.
"""

from collections.abc import Mapping
from typing import Final

import msgspec

from orchestrator.formats.input.custom_id import decode_custom_id
from orchestrator.formats.text.json_text import json_kind
from orchestrator.settings.words_and_defaults import InputFormat

KEYS: Final = frozenset({"custom_id", "method", "url", "body"})

METADATA: Final = "metadata"
"""What a request may have besides: it is not sent, and stands in the line of its result."""

LOOKS_LIKE_IT: Final = (
    "this looks like a request of an OpenAI Batch file, and the first line does not; keep to one form, or say"
    f" <setting format> {InputFormat.OPENAI_BATCH}"
)


def is_request(members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether an object is a request of this format: these keys, an object as body, and no others."""
    return (members.keys() | {"custom_id"}) - {METADATA} == KEYS and bytes(members["body"]).startswith(b"{")


def input_of(members: Mapping[str, msgspec.Raw]) -> tuple[str, bytes]:
    """The id of a request and the input that it becomes. Raises `ValueError` in words for its author."""
    if missing := sorted(KEYS - members.keys()):
        raise ValueError(f"a request of an OpenAI Batch file has {', '.join(sorted(KEYS))}; {missing[0]} is missing")
    if unknown := sorted(members.keys() - KEYS - {METADATA}):
        raise ValueError(
            f'unknown key "{unknown[0]:.40}"; a request of an OpenAI Batch file has none but its four, and {METADATA}'
        )
    method, url, body = (bytes(members[key]) for key in ("method", "url", "body"))
    if method != b'"POST"':
        raise ValueError(f"method must be POST, not {method.decode()[:40]}")
    if not url.startswith(b'"/'):
        raise ValueError(f'url must be a path, as in "/v1/chat/completions", not {url.decode()[:80]}')
    if not body.startswith(b"{"):
        raise ValueError(f"body must be an object, not {json_kind(body)}")
    custom_id = decode_custom_id(bytes(members["custom_id"]))
    return custom_id, b'{"openai_route":%b,"openai_input":%b}' % (url, body)
