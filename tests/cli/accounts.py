"""`orchestrator templates`, `secrets` and `endpoints` at an emulated account."""

from typing import Any

from orchestrator.account import Account
from orchestrator.cli.framework.service_access import Access, Connect
from orchestrator.core.service.account_interfaces import Interface
from tests.account.accounts import Script, Waits, client_of, scripted
from tests.cli.command_line import Result, call
from tests.emulator.accounts import KEY, account
from tests.emulator.accounts import EmulatedAccount as Emulated


class Shell:
    """A command line whose account is emulated, or answers as a script says, whose pauses are not waited for. `access`
    is that of the last command.
    """

    def __init__(self, script: Script | None = None, *, key: str = KEY, connect: Connect | None = None) -> None:
        self.script = script
        self.waits = Waits()
        self.key = key
        self.connect = connect or self._connect
        self.account: Emulated = account()
        self.access: Access | None = None

    def __call__(self, *arguments: str, stdin: str | bytes | None = None, **environment: str) -> Result:
        environment = {"ORCHESTRATOR_API_KEY": self.key, "COLUMNS": "200", **environment}
        return call(arguments, environment=environment, given=stdin, connect=self.connect)

    def _connect(self, access: Access) -> Account:
        self.access = access
        more: dict[str, Any] = {"graphql_key": access.graphql_key, "key": access.key, "interface": access.interface}
        if access.interface is not Interface.AUTO:  # of the older ones where nobody chooses, as their tests expect
            more["base_url"] = "http://emulator"
        return (
            client_of(self.account, **more) if self.script is None else scripted(self.script, sleep=self.waits, **more)
        )
