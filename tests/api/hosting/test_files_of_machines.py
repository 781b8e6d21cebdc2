"""Of a ledger that several machines share: a path is another file on each of them."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from orchestrator.api.foreground.run import run
from orchestrator.errors import UsageError
from orchestrator.formats.output.atomic_file import errors_for
from orchestrator.settings.addresses.ledger_address import parse_ledger_url
from orchestrator.settings.connection_settings import ConnectionSettings
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.run_settings import RunSettings
from tests.api.hosting.site import ONE, Site
from tests.simulation.world import URL

pytestmark = [pytest.mark.anyio, pytest.mark.virtual_time, pytest.mark.slow]

JOBS = 3
THEIRS = b"somebody's, of ten years\n"


def request_of(site: Site, name: str, output: Path | None) -> RunRequest:
    source = site.folder / f"{name}.jsonl"
    source.write_text("".join(f'{{"custom_id": "{name}-{n}", "input": {n}}}\n' for n in range(JOBS)))
    return RunRequest(
        name=name,
        source=str(source),
        endpoint=ONE,
        ledger=parse_ledger_url(site.url),
        connection=ConnectionSettings(serverless_url=URL, api_key="key"),
        settings=RunSettings(),
        output=output,
        errors=None if output is None else errors_for(output),
    )


def resumed(request: RunRequest) -> RunRequest:
    return replace(request, source=None, endpoint=None, settings=None, output=None, errors=None)


async def test_a_file_of_the_same_name_on_another_machine_is_not_the_run_s(site: Site) -> None:
    out = site.folder / "results.jsonl"
    request = request_of(site, "x", out)
    resume = resumed(request)
    await run(request, dependencies=site.dependencies("a"))
    own = out.read_bytes()
    assert len(own.splitlines()) == JOBS

    out.write_bytes(THEIRS)
    for next_one in (resume, request, request_of(site, "y", out)):
        with pytest.raises(UsageError) as refused:
            await run(next_one, dependencies=site.dependencies("b"))
        assert str(refused.value) == (
            f"{out}: this file is there already, and the run 'x' of this ledger has written one of this name on a, not"
            " on b; write to another, or add --overwrite"
        )
    assert out.read_bytes() == THEIRS

    out.unlink()
    errors_for(out).unlink()
    await run(resume, dependencies=site.dependencies("b"))
    assert out.read_bytes() == own
    with pytest.raises(UsageError, match="on b, not on a; write to another"):
        await run(resume, dependencies=site.dependencies("a"))


async def test_what_was_written_before_machines_were_noted_is_the_run_s_wherever_somebody_looks(site: Site) -> None:
    out = site.folder / "results.jsonl"
    request = request_of(site, "x", out)
    await run(request, dependencies=site.dependencies("a"))
    async with site.ledger() as ledger:
        [known] = await ledger.runs.all()
        await ledger.runs.configure(known.id, replace(known.settings, files_on=""), before=known.settings)
    with pytest.raises(UsageError, match="the run 'x' of this ledger has written this file"):
        await run(request_of(site, "y", out), dependencies=site.dependencies("b"))
    await run(resumed(request), dependencies=site.dependencies("b"))
