"""Prometheus' own tool, which says whether what we write for Prometheus is right: from the PATH, or Debian's package.

python -m tests.telemetry.promtool     # fetches it into the virtual environment, where it is not there
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

PLACE: Final = Path(sys.prefix) / "bin" / "promtool"
PACKAGE: Final = "prometheus"
TIME_MAX_S: Final = 300


class NoPromtoolError(Exception):
    """It could not be fetched; the message says why."""


def found() -> Path | None:
    """Where it is; None for nowhere."""
    on_path = shutil.which("promtool")
    if on_path is not None:
        return Path(on_path)
    return PLACE if PLACE.exists() else None


def promtool(*arguments: str | Path, stdin: bytes = b"") -> str:
    """What it says. Fails the test where it finds something wrong; skips it where there is no promtool, unless in CI."""
    tool = found()
    if tool is None:
        why = "there is no promtool: python -m tests.telemetry.promtool fetches it"
        if os.environ.get("CI") == "true":
            pytest.fail(why)
        pytest.skip(why)
    done = subprocess.run([tool, *arguments], input=stdin, capture_output=True, check=False, timeout=TIME_MAX_S)
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def fetch() -> Path:
    """Takes it out of Debian's package, without installing that. Raises `NoPromtoolError`."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoPromtoolError("there is neither promtool nor apt-get here")
    with tempfile.TemporaryDirectory() as folder:
        if not (_runs("apt-get", "download", PACKAGE, folder=folder) or _downloads_anew(folder)):
            raise NoPromtoolError(f"apt-get does not download {PACKAGE}")
        [package] = Path(folder).glob("*.deb")
        if not _runs("dpkg", "--extract", str(package), "unpacked", folder=folder):
            raise NoPromtoolError(f"{package.name} cannot be unpacked")
        shutil.move(Path(folder) / "unpacked" / "usr" / "bin" / "promtool", PLACE)
    return PLACE


def _downloads_anew(folder: str) -> bool:
    """On a new machine nobody has asked yet which packages there are; only root may."""
    return _runs("apt-get", "update", folder=folder) and _runs("apt-get", "download", PACKAGE, folder=folder)


def _runs(*command: str, folder: str) -> bool:
    return subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=TIME_MAX_S).returncode == 0


if __name__ == "__main__":
    try:
        print(found() or fetch())
    except NoPromtoolError as error:
        print(f"{error}: what needs it is skipped", file=sys.stderr)
