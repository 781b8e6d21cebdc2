"""The commands about what an account has: pods, endpoints, templates, secrets. One module for each noun."""

from typing import Final

from orchestrator.cli.account import endpoints, pods, secrets, templates
from orchestrator.cli.framework.command_groups import Members

ACCOUNT: Final[Members] = {
    "pods": pods.commands,
    "endpoints": endpoints.commands,
    "templates": templates.commands,
    "secrets": secrets.commands,
}
