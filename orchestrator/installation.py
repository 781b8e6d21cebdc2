"""How an extra of this program is added to it, by whatever has installed it: pip, pipx or uv."""

import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from itertools import pairwise
from pathlib import Path, PurePath
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec

DISTRIBUTION: Final = "serverless-orchestrator"
"""What the package index knows the program by; `orchestrator` is somebody else's there."""


class _Origin(msgspec.Struct, frozen=True):
    """Of `direct_url.json`, which stands where a package came from no index."""

    url: str = ""


def missing_package(what: str, package: str, extra: str) -> str:
    """That `what` needs a package that comes with `extra`, and the command that installs it here."""
    return f"{what} needs {package}, which is not installed: {install_command(extra)}"


def install_command(extra: str) -> str:
    """What to paste to have `extra` as well."""
    try:
        found: Distribution | None = distribution(DISTRIBUTION)
    except PackageNotFoundError:  # run from a folder, or from one that was set up under another name
        found = None
    origin = None if found is None else found.read_text("direct_url.json")
    installer = (None if found is None else found.read_text("INSTALLER")) or ""
    return command_for(extra, prefix=sys.prefix, installer=installer.strip(), folder=_folder(origin))


def command_for(extra: str, *, prefix: str, installer: str, folder: str | None) -> str:
    """The same for an environment at `prefix`, and a program that came out of `folder`, or from the index (None)."""
    what = f"'{folder or DISTRIBUTION}[{extra}]'"
    above = set(pairwise(PurePath(prefix).parts))
    if ("uv", "tools") in above:
        return f"uv tool install --force {what}"
    if ("pipx", "venvs") in above:
        return f"pipx install --force {what}"
    return f"uv pip install {what}" if installer == "uv" else f"pip install {what}"


def _folder(origin: str | None) -> str | None:
    """The folder from which the program was installed; of a source tree, that one."""
    if origin is not None:
        url = urlsplit(msgspec.json.decode(origin, type=_Origin).url)
        return unquote(url.path) if url.scheme == "file" else None
    tree = Path(__file__).resolve().parents[1]
    return str(tree) if (tree / "pyproject.toml").is_file() else None
