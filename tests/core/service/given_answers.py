"""Answers that services give, for tests of what they mean."""

from hypothesis import strategies as st

from orchestrator.core.service.answers import Answer
from orchestrator.errors import NotSent, Unanswered
from tests.texts import texts


def answer(status: int, body: bytes = b"", *, retry_after_s: float | None = None) -> Answer:
    return Answer(status=status, body=body, sent_at=1, answered_at=2, retry_after_s=retry_after_s)


HTML = b"<html><head><title>502 Bad Gateway</title></head></html>"
DEEP = b"[" * 100_000 + b"]" * 100_000

statuses = st.integers(100, 999)
bodies = st.binary() | st.sampled_from([b"{}", b'{"id":"a-u1"}', b'{"id":"a-u1","status":"COMPLETED"}', HTML, DEEP])
results = st.builds(answer, statuses, bodies) | st.builds(NotSent, texts()) | st.builds(Unanswered, texts())
