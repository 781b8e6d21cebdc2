"""Programs that post batches in a simulated world, and keep what they were told."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio
import httpx

from orchestrator.core.batch_api.posted_batch import POSTED_ENDS
from orchestrator.emulator.jobs.jobs import WorkerResult
from tests.simulation.compact import compact
from tests.simulation.posted_facts import Body, PostedFacts
from tests.simulation.posted_front import MODEL, Front
from tests.simulation.posted_plan import TEAMS, ProgramPlan, Wrong

CHAT: Final = "/v1/chat/completions"
POLL_S: Final = 5.0
AGAIN_S: Final = 2.0
FAILS_EACH, REFUSES_EACH = 7, 5
"""Of so many rows the worker fails, or refuses, one."""

FAILED: Final = "CUDA out of memory"


def content_of(body: bytes) -> str:
    """What makes a request what it is."""
    return str(json.loads(body)["messages"][0]["content"])


def row_of(content: str) -> int:
    """Which row of its file it is."""
    return int(content.rpartition(".")[2])


def made_of(body: bytes) -> WorkerResult:
    """What a worker makes of a request."""
    content = content_of(body)
    if row_of(content) % FAILS_EACH == FAILS_EACH - 1:
        return WorkerResult(error=FAILED)
    if row_of(content) % REFUSES_EACH == REFUSES_EACH - 1:
        return WorkerResult(output=b'{"object":"error","code":400,"message":"too long"}')
    return WorkerResult(output=json.dumps([{"object": "chat.completion", "said": content}]).encode())


class Program:
    """One of them. `number` says which."""

    def __init__(
        self, plan: ProgramPlan, number: int, front: Front, facts: PostedFacts, say: Callable[[str, str], None]
    ) -> None:
        self._plan, self._number = plan, number
        self._front, self._facts, self._say = front, facts, say
        self._team = TEAMS[plan.team]
        self._tries = 0

    async def live(self) -> None:
        """Posts its file and its batches, and returns once these have ended and their files are read."""
        await anyio.sleep_until(self._plan.begins_s)
        file = await self._upload()
        async with anyio.create_task_group() as tasks:
            for number in range(self._plan.again):
                tasks.start_soon(self._batch, file, number)
            if self._plan.deletes_after_s is not None:
                tasks.start_soon(self._delete, file, self._plan.deletes_after_s)

    async def _upload(self) -> str:
        """The id of its file: an upload that is not answered is made anew, with other requests."""
        while True:
            self._tries += 1
            bodies = {f"r{n}": self._body(n) for n in range(self._plan.rows)}
            form = {"file": ("in.jsonl", self._text(bodies))}
            answer = await self._asked("POST", "/files", files=form, data={"purpose": "batch"})
            if answer is not None and answer.status_code == httpx.codes.OK:
                file = str(answer.json()["id"])
                self._facts.uploads[file], self._facts.owners[file] = bodies, self._team
                return file
            await anyio.sleep(AGAIN_S)

    def _body(self, n: int) -> bytes:
        content = f"{self._number}.{self._tries}.{n}"
        return compact({"model": MODEL, "messages": [{"role": "user", "content": content}]})

    def _text(self, bodies: Mapping[str, bytes]) -> bytes:
        lines = [
            b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}' % (name.encode(), CHAT.encode(), body)
            for name, body in bodies.items()
        ]
        at = len(lines) // 2
        match self._plan.wrong:
            case Wrong.NO_JSON:
                lines[at] = b"{no json"
            case Wrong.REPEATED_ID:
                lines.append(lines[at])
            case Wrong.OTHER_MODEL:
                lines[at] = lines[at].replace(MODEL.encode(), b"nobodys")
            case Wrong.OTHER_URL:
                lines[at] = lines[at].replace(CHAT.encode(), b"/v1/embeddings")
            case None:
                pass
        return b"\n".join(lines) + b"\n"

    async def _batch(self, file: str, number: int) -> None:
        """A batch of its file, to its end."""
        question = {
            "input_file_id": file,
            "endpoint": CHAT,
            "completion_window": f"{self._plan.window_s}s",
            "metadata": {"number": str(number)},
        }
        answer = await self._answered("POST", "/batches", json=question)
        if answer.status_code != httpx.codes.OK:
            if answer.status_code != httpx.codes.NOT_FOUND or self._plan.deletes_after_s is None:
                self._facts.flaws.append(f"no batch of {file}: {answer.text}")
            return
        batch = str(answer.json()["id"])
        self._facts.owners[batch] = self._team
        async with anyio.create_task_group() as tasks:
            if self._plan.cancels_after_s is not None:
                tasks.start_soon(self._cancel, batch, self._plan.cancels_after_s)
            shown = await self._ended(batch)
            await self._try_others()
            tasks.cancel_scope.cancel()
        self._facts.ended[batch] = shown
        for key in ("output_file_id", "error_file_id"):
            if shown[key] is not None:
                self._facts.lines[shown[key]] = await self._read(shown[key])

    async def _ended(self, batch: str) -> Body:
        while True:
            answer = await self._asked("GET", f"/batches/{batch}")
            if answer is not None and answer.status_code == httpx.codes.OK:
                shown: Body = answer.json()
                states = self._facts.seen[batch]
                if not states or states[-1] != shown["status"]:
                    states.append(shown["status"])
                    self._say(f"{self._team} sees {shown['status']}", batch)
                if shown["status"] in POSTED_ENDS:
                    return shown
            elif answer is not None and not answer.is_server_error:
                self._facts.flaws.append(f"{batch} was answered {answer.status_code}")
            await anyio.sleep(POLL_S)

    async def _read(self, file: str) -> list[Body]:
        answer = await self._answered("GET", f"/files/{file}/content")
        if answer.status_code != httpx.codes.OK:
            self._facts.flaws.append(f"the file {file} was answered {answer.status_code}")
            return []
        return [json.loads(line) for line in answer.text.splitlines()]

    async def _cancel(self, batch: str, after_s: float) -> None:
        await anyio.sleep(after_s)
        answer = await self._answered("POST", f"/batches/{batch}/cancel")
        self._say(f"cancel: {answer.status_code}", batch)

    async def _delete(self, file: str, after_s: float) -> None:
        await anyio.sleep(after_s)
        while True:
            answer = await self._asked("DELETE", f"/files/{file}")
            if answer is not None and answer.status_code in (httpx.codes.OK, httpx.codes.NOT_FOUND):
                self._facts.deleted.add(file)
                self._say("deleted", file)
                return
            await anyio.sleep(AGAIN_S)  # it is being read, or nobody has answered

    async def _try_others(self) -> None:
        """Asks for what is another team's: it is told of nothing."""
        for name in [name for name, owner in self._facts.owners.items() if owner != self._team]:
            path = f"/batches/{name}" if name.startswith("batch") else f"/files/{name}/content"
            answer = await self._asked("GET", path)
            if answer is not None and answer.status_code != httpx.codes.NOT_FOUND and not answer.is_server_error:
                self._facts.flaws.append(f"{self._team} was told of {name}: {answer.status_code}")

    async def _answered(self, method: str, path: str, **said: Any) -> httpx.Response:
        """What was answered, by a process that could."""
        while True:
            answer = await self._asked(method, path, **said)
            if answer is not None and not answer.is_server_error:
                return answer
            await anyio.sleep(AGAIN_S)

    async def _asked(self, method: str, path: str, **said: Any) -> httpx.Response | None:
        """What was answered; None: nothing."""
        async with self._front.client(self._team) as client:
            try:
                return await client.request(method, path, **said)
            except httpx.TransportError:
                return None


async def listed(front: Front, team: str) -> set[str]:
    """All that a team sees."""
    found: set[str] = set()
    async with front.client(team) as client:
        for path in ("/files", "/batches"):
            after: str | None = None
            while True:
                params = {} if after is None else {"after": after}
                page = (await client.get(path, params=params)).json()
                found |= {each["id"] for each in page["data"]}
                after = page["last_id"]
                if not page["has_more"]:
                    break
    return found
