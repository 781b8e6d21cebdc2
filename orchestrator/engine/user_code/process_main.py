"""The process that people's steps and checks run in, one call after the other. The other end is `user_process`."""

import os
import queue
import signal
import threading
from pathlib import Path
from typing import IO

import msgspec

from orchestrator.engine.user_code.functions import Task, UserFunctions
from orchestrator.engine.user_code.process import read, write


def main() -> None:
    """Takes the standard streams away from people's code, and does what it is asked for until nobody asks any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # no Ctrl-C comes here: an interrupt is what their code raises
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    asked: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(source, asked), daemon=True).start()
    functions, decode = UserFunctions(), msgspec.msgpack.Decoder(Task).decode
    while True:
        write(sink, msgspec.msgpack.encode(functions.do(decode(asked.get()))))


def _listen(source: IO[bytes], asked: "queue.SimpleQueue[bytes]") -> None:
    """Once nobody is there who asks, what is under way is for nobody, however long it would take."""
    while True:
        try:
            asked.put(read(source))
        except EOFError:
            os._exit(0)
