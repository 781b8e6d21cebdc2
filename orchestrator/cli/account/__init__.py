"""The commands about what an account has: pods, endpoints, templates, secrets. One module for each noun."""

import typer

from orchestrator.cli.account.endpoints import add_endpoints
from orchestrator.cli.account.pods import add_pods
from orchestrator.cli.account.secrets import add_secrets
from orchestrator.cli.account.templates import add_templates
from orchestrator.cli.framework import service_access
from orchestrator.cli.framework.service_access import Connect


def add_account(commands: typer.Typer, connect: Connect = service_access.connect) -> None:
    """Registers the commands of each noun."""
    for add in (add_pods, add_endpoints, add_templates, add_secrets):
        add(commands, connect)
