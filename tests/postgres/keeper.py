"""Keeps a server for as long as anybody uses it: `python -m tests.postgres.keeper USERS [--durable]`.

Whoever uses the server holds a shared lock of the file USERS, which the system lets go of when the process ends, however
it ends. The keeper says where the server is once that takes connections, waits for the lock to be free, and leaves
nothing behind.
"""

import fcntl
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.postgres.binaries import Binaries, binaries

USER: Final = "orchestrator"
SETTINGS: Final = {"listen_addresses": "''", "max_connections": "200", "shared_buffers": "64MB"}
VOLATILE: Final = {"fsync": "off", "full_page_writes": "off"}
"""A test kills processes, never the machine: what was handed to the system survives that."""

DURABLE: Final = "--durable"
"""For who measures: what is committed is on the disk."""


def kept(users: Path, *, is_durable: bool = False) -> None:
    """Has a server until nobody holds a lock of `users`."""
    with users.open("r+b") as file:
        # Not where pytest keeps its files: a user whom root becomes does not come there. And the name of a socket is short.
        folder = Path(tempfile.mkdtemp(prefix="orchestrator-postgres-", dir="/tmp"))
        try:
            programs = binaries(folder)
            if programs.user is not None:
                folder.chmod(0o711)
            data = _started(programs, folder, SETTINGS if is_durable else SETTINGS | VOLATILE)
            try:
                print(data, flush=True)
                fcntl.lockf(file, fcntl.LOCK_EX)
            finally:
                programs.run("pg_ctl", "stop", "-D", data, "-m", "immediate", within=data)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _started(programs: Binaries, folder: Path, settings: Mapping[str, str]) -> Path:
    """The folder of a new server's data, in which its socket is, too."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    if programs.user is not None:
        shutil.chown(data, programs.user)
    options = ("--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
    programs.run("initdb", "-D", data, *options, within=data)
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
        file.write(f"unix_socket_directories = '{data}'\n")
    programs.run("pg_ctl", "start", "-D", data, "-l", data / "log", "--wait", within=data)
    return data


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # those whom they are for end, and we end after them
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    kept(Path(sys.argv[1]), is_durable=DURABLE in sys.argv)
