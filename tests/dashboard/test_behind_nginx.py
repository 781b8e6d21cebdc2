"""What the documentation has for nginx, in nginx, where that is installed."""

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import httpx
import pytest

from tests.benchmarks.processes import clean_environment
from tests.cli.small_ledger import a_ledger
from tests.dashboard.actions.forms import fields_of
from tests.dashboard.browser.site import dashboard_process
from tests.dashboard.harness import Answer
from tests.dashboard.showcase import LEDGER

pytestmark = [pytest.mark.slow, pytest.mark.system]

NGINX: Final = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
PAGE: Final = Path(__file__).parents[2] / "docs" / "how-to" / "dashboard.md"
SECONDS_MAX: Final = 20.0
AROUND: Final = """
pid nginx.pid;
error_log error.log;
events {}
http {
    access_log off;
    client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
    server { listen 127.0.0.1:PORT; SNIPPET }
}
"""


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextmanager
def nginx(folder: Path, snippet: str, port: int) -> Iterator[None]:
    """It serves at that port until the block ends: the command is over once it listens."""
    (folder / "nginx.conf").write_text(AROUND.replace("PORT", str(port)).replace("SNIPPET", snippet))
    command = [str(NGINX), "-p", str(folder), "-c", "nginx.conf"]
    begun = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert begun.returncode == 0, begun.stderr
    try:
        yield
    finally:
        subprocess.run([*command, "-s", "stop"], capture_output=True, timeout=SECONDS_MAX, check=True)


@pytest.mark.skipif(NGINX is None, reason="nginx is not installed")
@pytest.mark.parametrize("end", ["", "/"], ids=["the path is kept", "the path is stripped"])
def test_one_acts_through_it(tmp_path: Path, end: str) -> None:
    a_ledger(tmp_path / LEDGER, name="night", queued=2)
    [snippet] = re.findall(r"^```nginx\n(location .*?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    port, inner = free_port(), free_port()
    public = f"http://127.0.0.1:{port}/orchestrator"
    with dashboard_process(tmp_path, clean_environment(), "--url", public, port=inner) as site:
        snippet = snippet.replace("http://127.0.0.1:8901;", f"http://127.0.0.1:{inner}{end};")
        assert str(inner) in snippet
        with nginx(tmp_path, snippet, port), httpx.Client(trust_env=False, follow_redirects=True) as client:
            client.headers.update({"Accept": "text/html", "Origin": f"http://127.0.0.1:{port}"})
            token = site.link.partition("link=")[2]
            assert client.get(public).status_code == 401, "also without the slash at its end"
            assert client.post(f"{public}/login", data={"link": token}).url == f"{public}/"
            [style] = re.findall(r'href="([^"]*style\.css[^"]*)"', client.get(f"{public}/runs/1").text)
            assert client.get(f"http://127.0.0.1:{port}{style}").status_code == 200
            asked = client.post(f"{public}/runs/1/pause", data={"back": "/runs/1"})
            done = client.post(f"{public}/runs/1/pause", data=fields_of(Answer(asked)))
            assert done.url == f"{public}/runs/1?did=1"
            assert "nothing more of it is sent" in done.text
            found = client.get(f"{public}/runs/1", headers={"Accept": "application/json"}).json()
            assert found["status"]["paused"]
