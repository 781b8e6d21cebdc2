"""`orchestrator templates`, `secrets` and `endpoints` at an emulated account."""

from orchestrator.account import Account
from orchestrator.cli.access import Access, Connect
from orchestrator.cli.account.endpoints import add_endpoints
from orchestrator.cli.account.secrets import add_secrets
from orchestrator.cli.account.templates import add_templates
from orchestrator.emulator.account import Account as Emulated
from tests.account.accounts import Script, client_of, scripted
from tests.cli.command_line import Result, call_only
from tests.emulator.accounts import KEY, account


class Shell:
    """A command line whose account is emulated, or answers as a script says. `access` is that of the last command."""

    def __init__(self, script: Script | None = None, *, key: str = KEY, connect: Connect | None = None) -> None:
        self.script = script
        self.key = key
        self.connect = connect or self._connect
        self.account: Emulated = account()
        self.access: Access | None = None

    def __call__(self, *arguments: str, stdin: str | bytes | None = None, **environment: str) -> Result:
        adds = (add_templates, add_secrets, add_endpoints)
        environment = {"ORCHESTRATOR_API_KEY": self.key, "COLUMNS": "200", **environment}
        return call_only(adds, self.connect, arguments, environment=environment, given=stdin)

    def _connect(self, access: Access) -> Account:
        self.access = access
        if self.script is not None:
            return scripted(self.script, key=access.key, graphql_key=access.graphql_key)
        return client_of(self.account, graphql_key=access.graphql_key, key=access.key)
