"""The Batch API is asked well and badly with keys that are secrets, and all that it says and leaves is for the sweep."""

import signal
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx
from openai import OpenAI

from tests.batch_api.harness import lines, request
from tests.system.batch_api_server import address_said, ended, made
from tests.system.processes import Desk
from tests.system.sweep import Sweep

BATCH_KEYS: Final = {"BATCH_KEY": "batch-key-of-the-sweep", "OTHER_BATCH_KEY": "other-batch-key-of-the-sweep"}
FOREIGN_KEY: Final = "foreign-batch-key-of-the-sweep"
CONFIGURATION: Final = """
[models.small]
endpoint = "ep1"
max-attempts = 1

[batch-api]
keys = { ours = "env:BATCH_KEY", theirs = "env:OTHER_BATCH_KEY" }
"""

KEY: Final = BATCH_KEYS["BATCH_KEY"]
BAD: Final[Sequence[tuple[str, str, dict[str, Any]]]] = (
    ("GET", "/v1/nothing", {}),
    ("GET", "/v1/files/file-of-nobody", {}),
    ("GET", "/v1/files?limit=none", {}),
    ("PUT", "/v1/files", {}),
    ("POST", "/v1/files", {"content": b"no form"}),
    ("POST", "/v1/files", {"files": {"file": b"{}"}, "data": {"purpose": "vision"}}),
    ("POST", "/v1/batches", {"content": b"{"}),
    ("POST", "/v1/batches", {"json": {"input_file_id": "file-x", "endpoint": "/", "completion_window": "24h"}}),
)


def the_batch_api_is_asked(desk: Desk, url: str, environ: Mapping[str, str], sweep: Sweep) -> None:
    """By whoever has a key, in every way that is refused, and by somebody with a key that is none."""
    words = ("serve", "--batch-api", "127.0.0.1:0", "--serverless-url", url, "--log-file", "batch-api.log")
    program = desk.start(*words, environ=environ)
    base_url = address_said(program)
    client = OpenAI(base_url=base_url, api_key=KEY)
    for text in (lines([request(0, "small")]), b"{"):
        batch = ended(client, made(client, text))
        sweep.add(f"batch {batch.id}", repr(batch))
    kept = desk.folder / "orchestrator.db.files"
    for given in (KEY, FOREIGN_KEY):
        for number, (method, path, more) in enumerate(BAD):
            headers = {"Authorization": f"Bearer {given}", "X-Api-Key": given, "Cookie": f"key={given}"}
            asked = f"{base_url.removesuffix('/v1')}{path}{'&' if '?' in path else '?'}api_key={given}"
            answer = httpx.request(method, asked, headers=headers, **more)
            assert answer.status_code in ((401,) if given == FOREIGN_KEY else (400, 404, 405)), answer.text
            sweep.add(f"answer {answer.status_code} {number}", answer.content, repr([*answer.headers.multi_items()]))
    aside = kept.rename(desk.folder / "aside.files")
    failed = httpx.post(
        f"{base_url}/files",
        headers={"Authorization": f"Bearer {KEY}"},
        files={"file": b"{}"},
        data={"purpose": "batch"},
    )
    assert failed.status_code == 500, failed.text
    sweep.add("answer of a failure", failed.content)
    aside.rename(kept)
    program.signal(signal.SIGINT)
    assert sweep.ended("stdout of the Batch API", program.ended()).exit_code == 0
