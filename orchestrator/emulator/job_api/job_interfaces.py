"""What an endpoint is asked for: the job API, `/openai/*` and `/batch`; and files to which its outputs may link."""

from collections.abc import Callable, Sequence

from starlette.routing import Route

from orchestrator.emulator.batches.batch_rules import BatchRules
from orchestrator.emulator.batches.batches import Batches
from orchestrator.emulator.http.gate import Gate
from orchestrator.emulator.job_api.batch_routes import BatchApi
from orchestrator.emulator.job_api.linked_files import LinkedFiles
from orchestrator.emulator.job_api.live_world import LiveWorld
from orchestrator.emulator.job_api.openai_routes import OpenAiApi
from orchestrator.emulator.job_api.routes import STREAM_WAIT_MS_DEFAULT, JobApi, job_routes


class JobInterfaces:
    """All of them at the endpoints of `live`; the options are as `JobApi` has them."""

    def __init__(
        self,
        live: LiveWorld,
        gate: Gate,
        rules: BatchRules,
        *,
        changed: Callable[[str], None],
        body_bytes_max: int,
        queue_per_worker: int | None = None,
        stream_wait_ms: int = STREAM_WAIT_MS_DEFAULT,
    ) -> None:
        self.batches = Batches(live.world, rules)
        jobs = JobApi(
            live,
            gate,
            changed=changed,
            body_bytes_max=body_bytes_max,
            queue_per_worker=queue_per_worker,
            stream_wait_ms=stream_wait_ms,
        )
        self.routes: Sequence[Route] = (
            *job_routes(jobs),
            *OpenAiApi(live, gate, changed=changed).routes(),
            *BatchApi(self.batches, live, gate, changed=changed).routes(),
            *LinkedFiles(gate.wire).routes(),
        )
