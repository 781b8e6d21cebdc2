"""What carries out flows on a ledger, put together: begun in an order in which whoever is told is there."""

from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.clock import Clock
from orchestrator.core.text.next_step import Wording
from orchestrator.engine.flows.flow_executor import FlowFiles
from orchestrator.engine.flows.flow_notifier import FlowNotifier
from orchestrator.engine.flows.flow_retention import FlowRetention
from orchestrator.engine.flows.liveness_pings import LivenessPings
from orchestrator.engine.flows.row_handover import RowHandover
from orchestrator.engine.flows.run_notifier import RunEpisodes, RunNotifier
from orchestrator.engine.flows.scheduler import Firing, Scheduler
from orchestrator.engine.flows.stage_runs import StageRuns
from orchestrator.engine.hosting.command_desk import CommandDesk
from orchestrator.engine.hosting.run_host import RunHost
from orchestrator.engine.runtime.console import Console
from orchestrator.engine.runtime.subscribers import StepSubscribers, Subscribers
from orchestrator.ledger import Ledger
from orchestrator.ledger.runs.intakes import Hold


def run_episodes(host: RunHost, clock: Clock, found: Callable[[], None]) -> RunEpisodes:
    """What finds out of the runs of one engine what somebody wants to hear of; `found` is called once there is any."""
    return RunEpisodes(
        ledger=host.ledger,
        clock=clock,
        sessions=host.runs.sessions,
        settings_of=host.runs.settings_of,
        scrub=host.endpoints.secrets.scrub,
        paid_for_nothing=host.pods.paid_for_nothing,
        found=found,
    )


@dataclass(kw_only=True, eq=False)
class FlowWork:
    """Of one engine. `scrub` takes secrets out of what is told; `hold` keeps others from taking in for a run."""

    ledger: Ledger
    clock: Clock
    host: RunHost
    steps: StepSubscribers
    news: Subscribers
    commits: Subscribers
    wake_others: Callable[[], None]
    commands: CommandDesk
    files: FlowFiles
    firing: Firing
    scrub: Callable[[bytes], bytes]
    hold: Hold
    console: Console
    word: Wording
    written_at: Callable[[], int]
    """When this process last wrote down that it works."""

    def __post_init__(self) -> None:
        warn = self.console.warn
        notifier = FlowNotifier(
            ledger=self.ledger,
            clock=self.clock,
            sender=self.files.sender,
            scrub=self.scrub,
            warn=warn,
            is_at_work=self.firing is not Firing.HANDED_OVER,
        )
        self.run_notifier = RunNotifier(
            episodes=run_episodes(self.host, self.clock, self.wake_others),
            ledger=self.ledger,
            clock=self.clock,
            tell=self.files.sender.tell_of_run,
            scrub=self.scrub,
            warn=warn,
            is_alone=self.host.endpoints.scope.is_everything,
        )
        stage_runs = StageRuns(host=self.host, wake_others=self.wake_others)
        relay = RowHandover(ledger=self.ledger, files=self.files, session_of=stage_runs.of, warn=warn)
        self.scheduler = Scheduler(
            ledger=self.ledger,
            clock=self.clock,
            files=self.files,
            runs=stage_runs,
            relay=relay,
            notifier=notifier,
            say=self.console.info,
            warn=warn,
            word=self.word,
            firing=self.firing,
        )
        retention = FlowRetention(ledger=self.ledger, runs=stage_runs, hold=self.hold)
        pings = LivenessPings(sender=self.files.sender, clock=self.clock, written_at=self.written_at, warn=warn)
        stage_runs.changed = relay.wake
        self._relay, self._stage_runs = relay, stage_runs
        self._parts = stage_runs, relay, notifier, self.run_notifier, retention, self.scheduler, pings

    async def begin(self) -> None:
        """Begins with all of it."""
        self.steps.add_of_all(self._relay.on_steps)
        self.steps.add_of_all(self._stage_runs.on_steps)
        self.steps.add_of_all(self.run_notifier.on_steps)
        self.commands.ticks(self.scheduler.tick)
        self.news.add(self._stage_runs.on_change)
        self.commits.add(self._stage_runs.on_change)
        self.news.add(self.scheduler.on_change)
        self.news.add(self.run_notifier.on_change)
        for part in self._parts:
            await self.host.groups.taking.start(part.serve)
