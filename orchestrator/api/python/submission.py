"""One input of a program's on its way into a run: found or made, taken in as it comes or as a whole, and served."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import anyio
from msgspec.structs import replace

from orchestrator.api.outcomes.row_input import row_variables
from orchestrator.api.python.inputs import Inputs, pump_of, source_of
from orchestrator.api.python.ledger_session import AttachedRun, LedgerSession
from orchestrator.api.python.submission_target import check_reachable, check_settings, target_of
from orchestrator.api.runs import start_and_stop_texts
from orchestrator.api.runs.endpoint_ids import EndpointNames
from orchestrator.api.runs.keyword_options import Function, display_name, settings_from
from orchestrator.api.runs.run_lookup import run_named
from orchestrator.api.runs.settings_check import check_rows_fit, check_run_endpoint
from orchestrator.core.service.profiles import endpoint_at
from orchestrator.engine.intake.intake import turn_to_take_in
from orchestrator.engine.ports.local_endpoints import absolute_members, stays
from orchestrator.errors import Problems, UsageError
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.input_rows import OpenIntake, PackedRow
from orchestrator.ledger.runs.runs import Run
from orchestrator.settings import run_request, run_settings
from orchestrator.settings.input_settings import InputSettings
from orchestrator.settings.run_settings import RunSettings
from orchestrator.settings.sources import Choices
from orchestrator.settings.words_and_defaults import BODY_BYTES_MAX_DEFAULT, LOCAL


@dataclass(kw_only=True, eq=False)
class Submission:
    """Takes `inputs` into the run called `name`. `take` does it, or `take_beside`, for which `begun` can be awaited."""

    session: LedgerSession
    choices: Choices
    """What was chosen, of the run and of the program."""

    options: Mapping[str, object]
    """What was said of the run."""

    inputs: Inputs
    name: str
    endpoint: str | Function | None
    all_or_nothing: bool
    appends: bool = False
    """Whether the run must be there, and the rows stand behind those that it has."""

    def __post_init__(self) -> None:
        self.begun = anyio.Event()
        """Set once the run is attached, or will not be."""

        self.attached: AttachedRun | None = None
        self.error: Exception | None = None
        self._taken = 0
        self._problems = Problems()

    async def take_beside(self) -> None:
        """As `take`, but what that raises is kept: `error`, and that of the run."""
        try:
            await self.take()
        except Exception as error:  # noqa: BLE001  whoever reads the results is told
            self.error = error
            if self.attached is not None:
                self.attached.error = error
        finally:
            self.begun.set()

    async def take(self) -> AttachedRun:
        """Takes all of it in; returns the run. Raises `InputError`, `UsageError`, and `UserCodeError` for what the
        inputs raise.
        """
        session, ledger = self.session, self.session.ledger
        hold = session.dependencies.holding_intakes(session.path)
        if self.appends:  # by the beginning of its name, perhaps: its turn goes by the whole
            self.name = (await run_named(ledger, self.name)).name
        async with turn_to_take_in(ledger, self.name, hold=hold, say=session.console.info, stop=anyio.Event()) as right:
            session.background.start(right.keep)
            try:
                run, settings = await self._found(ledger)
                quiet = settings if self.all_or_nothing else replace(settings, notify=None)
                await self._read(ledger, run, quiet)  # whoever is told of its end is not told of any on the way
                attached = self.attached or await self._attach(ledger, run, quiet)
                if settings != quiet:
                    await ledger.runs.configure(run.id, settings, before=quiet)
                    await ledger.flows.run_outbox.owe_start(run.id)
                    await ledger.flows.run_outbox.owe_end(run.id)
                    await session.attach(run)
                await session.look(attached, at_once=True)
            finally:
                if self.attached is not None:
                    self.attached.readers -= 1
                    self.attached.nudge()
        return attached

    async def _found(self, ledger: Ledger) -> tuple[Run, RunSettings]:
        """The run, made if it is new, and its settings from now on."""
        known = await (run_named(ledger, self.name) if self.appends else ledger.runs.named(self.name))
        names = EndpointNames(connection=self.session.connection, dependencies=self.session.dependencies)
        target = None if self.endpoint is None else await self._target(names, self.endpoint)
        settings = settings_from(self.choices, self.options, None if known is None else known.settings)
        if known is None or self.endpoint is not None:
            members = () if callable(self.endpoint) else await names.in_members(self.choices.members)
            before = RunSettings() if known is None else known.settings
            settings = settings.with_members(absolute_members(members), before)
            if known is not None and target is not None and stays(known.endpoint, settings.members):
                target = known.service_url, known.endpoint
            if known is not None:
                check_rows_fit(known, settings.members, "begin a run of another name")
        if known is None or self.options.get(run_settings.ESCALATE.name) is not None:  # what a run has are ids
            settings = replace(settings, escalate=await names.in_rules(settings.escalate))
        await check_settings(settings)
        if known is None and target is None:
            target = await self._target(names, self._chosen_endpoint())
        if target is not None:
            check_run_endpoint(settings, target[1], settings.members, display_name)
        if known is None:
            assert target is not None
            run = await self._made(ledger, target, settings)
        elif target is not None and target != (known.service_url, known.endpoint):
            run = await self._rebound(ledger, known, *target)
        else:
            run = known
        check_reachable(self.session, self.choices, run)
        return run, settings

    async def _rebound(self, ledger: Ledger, known: Run, url: str, endpoint: str) -> Run:
        """`known`, at another endpoint, if that of before never took a job of it."""
        at = known.endpoint if known.service_url == LOCAL else endpoint_at(known.endpoint, known.service_url)
        try:
            await self.session.rebind(known, url, endpoint)
        except UsageError as error:
            raise UsageError(
                f"the run {self.name!r} of this ledger is for the endpoint {at} ({error}); give another name="
            ) from None
        self.session.console.info(f"{known.name}: at the endpoint {endpoint} from now on; {at} never took a job of it")
        return await run_named(ledger, known.name, not_accepted=True)

    async def _target(self, names: EndpointNames, endpoint: str | Function) -> tuple[str, str]:
        """As `target_of`, by the id of an endpoint that was named."""
        return target_of(self.session, await names.id_of(endpoint) if isinstance(endpoint, str) else endpoint)

    def _chosen_endpoint(self) -> str:
        endpoint = self.choices[run_request.ENDPOINT]
        if endpoint is None:
            raise UsageError("endpoint= is missing: give your endpoint's id or name, or a function of yours")
        return endpoint

    async def _made(self, ledger: Ledger, target: tuple[str, str], settings: RunSettings) -> Run:
        url, name = target
        source = source_of(self.inputs)
        return await ledger.runs.create(
            name=self.name,
            service_url=url,
            endpoint=name,
            source=source,
            settings=settings if self.all_or_nothing else replace(settings, notify=None),
        )

    async def _read(self, ledger: Ledger, run: Run, settings: RunSettings) -> None:
        first = await ledger.runs.intakes.last_line(run.id) if self.appends else 0
        pump = pump_of(
            self.inputs,
            variables=await row_variables(ledger, self.session.connection, settings, self.session.dependencies.environ),
            settings=settings,
            reading=self.choices.build(InputSettings),
            webhook_bytes=await self.session.webhook_bytes(),
            body_bytes_max=self.choices[run_request.BODY_BYTES_MAX] or BODY_BYTES_MAX_DEFAULT,
            first=first,
            to_the_end=self.all_or_nothing,
        )
        intake = await ledger.runs.intakes.start(run, as_they_come=not self.all_or_nothing)

        async def write(rows: Sequence[PackedRow]) -> None:
            await self._write(ledger, run, settings, intake, rows)

        await pump.into(write)
        for problem in pump.problems:
            self._problems.add(problem.line, problem.text)
        self._check()
        taken = await ledger.runs.intakes.accept(intake, drop=self.choices.is_on(run_request.REPLACE_INPUT))
        start_and_stop_texts.say_changed(self.session.console, run.name, taken)

    async def _write(
        self, ledger: Ledger, run: Run, settings: RunSettings, intake: OpenIntake, rows: Sequence[PackedRow]
    ) -> None:
        clashes = await ledger.runs.intakes.add(intake, rows)
        self._taken += len(rows) - len(clashes)
        for clash in clashes:
            self._problems.add(clash.line, clash.text())
        if self.all_or_nothing:
            return
        if self._taken:
            await self.session.look(self.attached or await self._attach(ledger, run, settings))
        self._check()

    async def _attach(self, ledger: Ledger, run: Run, settings: RunSettings) -> AttachedRun:
        """Has the run served, by its settings from now on."""
        if settings != run.settings:
            await ledger.runs.configure(run.id, settings, before=run.settings)
        attached = await self.session.attach(run)
        attached.readers += 1
        attached.error = None
        self.attached = attached
        self.begun.set()
        return attached

    def _check(self) -> None:
        """Raises `InputError` for the rows that cannot be taken."""
        if self._problems.total:
            taken = 0 if self.all_or_nothing else self._taken
            raise self._problems.error(f"the inputs of {self.name!r}", "row {}".format, taken=taken)
