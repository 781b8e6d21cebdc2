"""Pages that are there for tests only: of the shell around them, whatever stands on the program's own."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from orchestrator.dashboard.page import (
    ElsewhereError,
    FormAnswer,
    FormRequest,
    FormRoute,
    KeptFile,
    NotFoundError,
    Page,
    PageRequest,
)
from orchestrator.dashboard.rendering.jinja_environment import TEMPLATES
from orchestrator.errors import UsageError

SEARCHED: Final = (TEMPLATES, Path(__file__).with_name("templates"))


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    jobs: int
    seen_at: int


@dataclass
class SamplePages:
    """Pages by number, and what was asked of them."""

    name: str = "night-2"
    asked: list[PageRequest] = field(default_factory=list)
    forms_sent: list[FormRequest] = field(default_factory=list)

    async def compose(self, request: PageRequest) -> Sample | KeptFile:
        self.asked.append(request)
        await request.ledger.runs.all()
        if "file" in request.query:
            return KeptFile(name='a"b/ü.html', media_type="text/plain", body=b"<script>")
        if "named" in request.query:
            raise ElsewhereError("/samples/1")
        if request.numbers.get("sample") == 9:
            raise NotFoundError("There is no sample 9.", {"sample 1": "/samples/1"})
        if "bad" in request.query:
            raise UsageError("bad is no filter; name one with <setting where>")
        if "broken" in request.query:
            raise RuntimeError("a secret")
        return Sample(name=self.name, jobs=12_345, seen_at=1)

    async def answer(self, request: FormRequest) -> FormAnswer:
        self.forms_sent.append(request)
        if "confirmed" in request.fields:
            return FormAnswer(redirect="/samples/1")
        return FormAnswer(template="sample.html", view=Sample(name=self.name, jobs=1, seen_at=1))

    @property
    def page(self) -> Page:
        return Page(
            path="/samples/{sample:number}",
            template="sample.html",
            compose=self.compose,
            parts=("figures", "more"),
            heading="Runs",
        )

    @property
    def form(self) -> FormRoute:
        return FormRoute(path="/samples/{sample:number}/pause", answer=self.answer, heading="Runs")
