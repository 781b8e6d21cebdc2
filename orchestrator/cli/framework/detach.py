"""`--detach`: the same command in a session of its own, which this process leaves once its run is under way."""

import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import BinaryIO, Final

import msgspec

from orchestrator.api.runs.next_command import stop_command, watch_command
from orchestrator.cli.framework.runner import INTERRUPTED_EXIT_CODE
from orchestrator.cli.output import streams
from orchestrator.cli.output.systemd import READY
from orchestrator.errors import UsageError
from orchestrator.settings import command_flags
from orchestrator.settings.addresses.companions import Companion, companion_of, companion_to_write
from orchestrator.settings.configuration_file import RUNS
from orchestrator.settings.run_request import RunRequest
from orchestrator.settings.words_and_defaults import STANDARD_INPUT

LOOK_S: Final = 0.2
DATAGRAM_BYTES: Final = 4_096


class Detached(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints of a run that goes on in the background."""

    run: str
    process: int
    log: str


def detach(request: RunRequest, *, quiet: bool, as_json: bool) -> int:
    """Begins the command anew in the background; returns its exit code if it ends before its run is under way, else 0.

    Raises `UsageError` where its log cannot be written.
    """
    path = companion_of(request.ledger, Companion.LOG)
    try:
        log = companion_to_write(request.ledger, Companion.LOG).open("ab")
    except OSError as error:
        why = f"{path}: cannot be written ({error.strerror})"
        raise UsageError(f"{why}; what is said in the background goes there") from error
    with log, path.open("rb") as said, tempfile.TemporaryDirectory() as folder:
        said.seek(0, os.SEEK_END)
        address = Path(folder) / "ready"
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as ready:
            ready.bind(str(address))
            ready.settimeout(LOOK_S)
            process = _begun(request, log, address)
            code = _watched(process, ready, said, quiet=quiet)
    if code is not None:
        return code
    if not quiet:
        streams.say(f"{request.name} goes on in process {process.pid}; what it says goes to {path}")
        streams.say(f"follow it with: {watch_command(request)}")
        streams.say(f"stop it with: {stop_command(request)}")
    if as_json:
        streams.put_json(Detached(run=request.name, process=process.pid, log=str(path)))
    return 0


def _begun(request: RunRequest, log: BinaryIO, address: Path) -> subprocess.Popen[bytes]:
    words = [word for word in sys.argv[1:] if word != str(command_flags.DETACH)]
    environment = {**os.environ, "NOTIFY_SOCKET": str(address), RUNS.variable(command_flags.DETACH): "false"}
    return subprocess.Popen(  # noqa: S603  the words of this very command
        [sys.executable, "-m", "orchestrator", *words],
        stdin=None if STANDARD_INPUT in (request.source or "").splitlines() else subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        env=environment,
        start_new_session=True,
    )


def _watched(process: subprocess.Popen[bytes], ready: socket.socket, said: BinaryIO, *, quiet: bool) -> int | None:
    """Repeats what `process` says until it is ready, and then None, or has ended, and then its exit code."""
    try:
        while True:
            code = process.poll()
            is_ready = _is_ready(ready)
            if not quiet or code is not None:
                streams.pass_on(said.read())
            if is_ready or code is not None:
                return None if is_ready else code
    except KeyboardInterrupt:
        process.terminate()
        process.wait()
        streams.pass_on(said.read())
        return INTERRUPTED_EXIT_CODE


def _is_ready(ready: socket.socket) -> bool:
    try:
        return READY.encode() in ready.recv(DATAGRAM_BYTES).split(b"\n")
    except TimeoutError:
        return False
