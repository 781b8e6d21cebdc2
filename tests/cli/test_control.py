"""`pause`, `continue` and `cancel` leave a word for whoever works on the run."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from orchestrator.api.controlling import control
from orchestrator.clock import SystemClock
from orchestrator.errors import UsageError
from orchestrator.ledger import open_ledger
from orchestrator.settings import RunSettings, Wish
from tests.cli.fake_api import FakeApp, invoke


@pytest.mark.parametrize("wish", Wish)
def test_each_wish_is_handed_on_with_the_name_of_the_run(wish: Wish) -> None:
    app = FakeApp()
    result = invoke(app, wish, "captions", "--ledger", "l.db")
    assert app.asked == [(Path("l.db"), "captions", wish)]
    assert result.exit_code == 0
    assert "it holds from the next start" in result.stderr
    assert json.loads(invoke(app, wish, "captions", "--json").stdout)["paused"] is (wish is Wish.PAUSE)


def test_the_wish_is_kept_in_the_ledger_until_it_is_lifted(tmp_path: Path) -> None:
    async def made() -> None:
        async with open_ledger(tmp_path / "l.db", clock=SystemClock()) as ledger, anyio.create_task_group() as tasks:
            await tasks.start(ledger.serve)
            await ledger.runs.create(name="r", service_url="http://s", endpoint="e", source="-", settings=RunSettings())
            tasks.cancel_scope.cancel()

    anyio.run(made)
    asked = [
        anyio.run(partial(control, tmp_path / "l.db", "r", wish)) for wish in (Wish.PAUSE, Wish.CANCEL, Wish.CONTINUE)
    ]
    assert [(each.paused, each.cancelled) for each in asked] == [(True, False), (True, True), (False, False)]
    with pytest.raises(UsageError, match="no run called"):
        anyio.run(partial(control, tmp_path / "l.db", "other", Wish.PAUSE))
