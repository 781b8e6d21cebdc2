"""Keeps a server for as long as anybody uses it: `python -m tests.postgres.keeper USERS`.

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
from pathlib import Path
from typing import Final

from tests.postgres.binaries import Binaries, binaries

USER: Final = "orchestrator"
SETTINGS: Final = {
    "listen_addresses": "''",
    "fsync": "off",  # a test kills processes, never the machine: what was handed to the system survives that
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
}


def kept(users: Path) -> None:
    """Has a server until nobody holds a lock of `users`."""
    with users.open("r+b") as file:
        # Not where pytest keeps its files: a user whom root becomes does not come there. And the name of a socket is short.
        folder = Path(tempfile.mkdtemp(prefix="orchestrator-postgres-", dir="/tmp"))
        try:
            programs = binaries(folder)
            if programs.user is not None:
                folder.chmod(0o711)
            data = _started(programs, folder)
            try:
                print(data, flush=True)
                fcntl.lockf(file, fcntl.LOCK_EX)
            finally:
                programs.run("pg_ctl", "stop", "-D", data, "-m", "immediate", within=data)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _started(programs: Binaries, folder: Path) -> Path:
    """The folder of a new server's data, in which its socket is, too."""
    data = folder / "data"
    data.mkdir(mode=0o700)
    if programs.user is not None:
        shutil.chown(data, programs.user)
    options = ("--auth=trust", f"--username={USER}", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions")
    programs.run("initdb", "-D", data, *options, within=data)
    settings = {**SETTINGS, "unix_socket_directories": f"'{data}'"}
    with (data / "postgresql.conf").open("a") as file:
        file.writelines(f"{name} = {value}\n" for name, value in settings.items())
    programs.run("pg_ctl", "start", "-D", data, "-l", data / "log", "--wait", within=data)
    return data


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # those whom they are for end, and we end after them
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    kept(Path(sys.argv[1]))
