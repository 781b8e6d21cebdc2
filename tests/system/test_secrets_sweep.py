"""Every kind of secret, through all that the program does, and then a look at everything that it has left behind."""

import re
import shutil
import signal
import sqlite3
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from tests.client.raw_server import closed_port
from tests.system.batch_api_secrets import BATCH_KEYS, CONFIGURATION, FOREIGN_KEY, the_batch_api_is_asked
from tests.system.browsing import Visitor, dashboard_of, looking_at, signed_in
from tests.system.processes import Desk, Program, lines_of, looks
from tests.system.receiver import Receiver, receiving
from tests.system.sweep import Sweep
from tests.system.test_secrets import blobs_of

pytestmark = [pytest.mark.system, pytest.mark.slow]

JOBS: Final = 40
LEDGER: Final = "orchestrator.db"

SERVICE_KEY: Final = "rpa_service-key-of-the-sweep"
STORE_ID, STORE_SECRET = "AKIASWEEPSWEEPSWEEP", "store-secret-of-the-sweep"
ACCOUNT_SECRET, TEMPLATE_SECRET = "account-secret-of-the-sweep", "template-secret-of-the-sweep"
MAIL_PASSWORD: Final = "mail-password-of-the-sweep"
SIGNING: Final = "whsec_" + b64encode(b"signing-secret-of-the-sweep").decode()
PROXY_PASSWORD: Final = "proxy-password-of-the-sweep"
WRONG_KEY: Final = "rpa_wrong-key-of-the-sweep"
TRACE_TOKEN: Final = "trace-token-of-the-sweep"
EMAIL: Final = "somebody-in-the-sweep@private.example"
TARGETS: Final = ("hook", "slack", "discord", "teams", "ping", "gone", "moved", "nobody")

FLOW: Final = "nightly@20270328T023000Z"

HANDLER: Final = """
import os

def work(job):
    given = job["input"]
    said = f"cannot store it as {os.environ['STORE_ID']} with {os.environ['STORE_SECRET']}"
    if given["n"] % 4 == 0:
        raise ValueError(f"{said}, nor ask with {os.environ['SERVICE_KEY']}, for {given['email']}")
    return {"n": given["n"], "email": given["email"], "said": said}
"""

COMMAND: Final = """
import os, sys
open("told.txt", "a").write(sys.stdin.read() + "\\n")
secrets = ("STORE_SECRET", "ORCHESTRATOR_API_KEY", "HOOK_SECRET", "MAIL_PASSWORD")
sys.exit(" ".join(os.environ[name] for name in secrets))
"""


PIPELINE: Final = """
name = "nightly"
input = "night.jsonl"

[notify]
on = ["started", "done", "partial", "failed", "held"]
to = {to}
url = "{url}"
secret = "env:HOOK_SECRET"

[stage.caption]
endpoint = "ep1"
allow-env = ["STORE_*"]
max-attempts = 1
max-failed = "100%"
output = "captions-{{flow}}.jsonl"

[stage.page]
from = ["caption"]
needs = "50%"
command = ["python", "page.py"]
max-attempts = 2
"""


def target_secret(name: str) -> str:
    return f"{name}-target-of-the-sweep"


class Mailbox:
    """A mail server that lets in who knows the password, and takes nothing."""

    def __init__(self) -> None:
        self.signed_in = False
        self.mails: list[bytes] = []

    async def handle_DATA(self, _server: object, _session: object, envelope: object) -> str:  # noqa: N802
        self.mails.append(envelope.content)  # type: ignore[attr-defined]
        return f"554 not with {MAIL_PASSWORD}"

    def let_in(self, _server: object, _session: object, _envelope: object, _mechanism: str, data: object) -> AuthResult:
        self.signed_in |= data.password.decode() == MAIL_PASSWORD  # type: ignore[attr-defined]
        return AuthResult(success=True, handled=False)


@contextmanager
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    box, port = Mailbox(), int(closed_port().rpartition(":")[2])
    controller = Controller(box, hostname="127.0.0.1", port=port, authenticator=box.let_in, auth_require_tls=False)
    controller.start()
    try:
        yield box, port
    finally:
        controller.stop()


def configured(desk: Desk, receiver: Receiver, mail_port: int) -> dict[str, str]:
    """Writes the configuration and what it names; the environment of whoever works."""
    desk.write("handlers.py", HANDLER)
    desk.write("page.py", COMMAND)
    kinds = {"gone": "webhook", "moved": "webhook", "nobody": "webhook", "hook": "webhook"}
    tables = [f'[notify.{name}]\nkind = "{kinds.get(name, name)}"\nurl = "env:{name.upper()}_URL"' for name in TARGETS]
    tables[0] += '\nsecret = "env:HOOK_SECRET"'
    tables.append(
        f'[notify.mail]\nkind = "email"\nserver = "127.0.0.1:{mail_port}"\nsecurity = "off"\nuser = "sweeper"\n'
        'password = "env:MAIL_PASSWORD"\nfrom = "a@private.example"\nto = ["b@private.example"]'
    )
    tables.append('[notify.pager]\nkind = "command"\ncommand = ["python", "page.py"]')
    desk.write(
        "nightly.toml",
        PIPELINE.format(url=f"{receiver.url}/flow/{target_secret('flow')}", to=[*TARGETS, "mail", "pager"]),
    )
    tables.append('[dashboard]\nredact = ["input.email", "output.email"]\ntrace = 1.0')
    tables.append(CONFIGURATION)
    desk.write("orchestrator.toml", "\n\n".join(tables))
    rows = [
        {
            "custom_id": f"row-{n}",
            "input": {"n": n, "email": f"{n}-{EMAIL}", "pad": "p" * (n % 2 * 9_000)},
            "s3Config": {"accessId": "env:STORE_ID", "accessSecret": "env:STORE_SECRET", "bucketName": "b",
                         "endpointUrl": "http://127.0.0.1:1"},
        }
        for n in range(JOBS)
    ]  # fmt: skip
    desk.write("night.jsonl", lines_of(rows))
    receiver.answers |= {"/gone": 410, "/moved": 302, "/slack": 400, "/discord": 403}
    urls = {f"{name.upper()}_URL": f"{receiver.url}/{name}/{target_secret(name)}" for name in TARGETS}
    urls["PLAIN_URL"] = f"{receiver.url}/plain/{target_secret('plain')}"
    urls["NOBODY_URL"] = f"http://sweeper:{target_secret('nobody')}@{closed_port()}/"
    return {
        "ORCHESTRATOR_API_KEY": SERVICE_KEY,
        "STORE_ID": STORE_ID,
        "STORE_SECRET": STORE_SECRET,
        "HOOK_SECRET": SIGNING,
        "MAIL_PASSWORD": MAIL_PASSWORD,
        **BATCH_KEYS,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"{receiver.url}/otlp",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{TRACE_TOKEN}",
        **urls,
    }


def emulator(desk: Desk) -> tuple[Program, str]:
    """The service, with workers that say all that they know."""
    environ = {"STORE_ID": STORE_ID, "STORE_SECRET": STORE_SECRET, "SERVICE_KEY": SERVICE_KEY}
    words = ("emulate", "--handler", "handlers.py:work", "--port", "0", "--key", SERVICE_KEY, "--env", "service.env")
    program = desk.start(*words, environ=environ, within_s=300)
    program.until_said("serverless_url")
    lines = (desk.folder / "service.env").read_text().splitlines()
    urls = dict(line.removeprefix("export ").split("=", 1) for line in lines)
    return program, urls["ORCHESTRATOR_SERVERLESS_URL"].strip("'\"")


def paths_in(html: str) -> set[str]:
    """The paths of ours that a page leads to."""
    return {path.replace("&amp;", "&").partition("#")[0] for path in re.findall(r'href="(/[^"]*)"', html)}


def walked(visitor: Visitor, sweep: Sweep, who: str) -> set[str]:
    """Every page that one comes to from the first one on, as HTML and as JSON."""
    ahead, seen = ["/", "/metrics", "/healthz/work", "/actions", "/messages"], set[str]()
    while ahead:
        path = ahead.pop()
        if path in seen or len(seen) > 200 or re.search(r"/jobs/(?!(1|2|4|5)(/|$))", path):
            continue
        seen.add(path)
        html = visitor.html(path)
        told = visitor.client.get(path, headers={"Accept": "application/json"})
        for form, answer in (("html", html), ("json", told)):
            sweep.add(f"page {who} {form} {path}", answer.content, repr([*answer.headers.multi_items()]))
        ahead += paths_in(html.text) if html.headers.get("content-type", "").startswith("text/html") else ()
    return seen


def asked_of_forms(visitor: Visitor, sweep: Sweep) -> None:
    """What forms say before they do anything."""
    for path, fields in (
        ("/runs/1/retry", {"where": "state=failed"}),
        ("/runs/1/retry", {"cluster": "1"}),
        ("/runs/1/cancel", {}),
        ("/messages/1/resend", {}),
        ("/runs/1/limits", {"run": "50/10"}),
    ):
        answer = visitor.client.post(path, data=fields)
        sweep.add(f"page asked {path} {fields}", answer.content)


def files_in(folder: Path, sweep: Sweep) -> None:
    """All files there, and all that is in the ledger, also what is packed."""
    for path in folder.rglob("*"):
        if path.is_file():
            sweep.add(f"file {path}", path.read_bytes())
    sweep.add(f"of the report {folder}", *(each.read_bytes() for each in folder.glob("report.html")))
    sweep.add(f"values of {folder}", *blobs_of(folder / LEDGER))


INPUTS: Final = ("handlers.py", "night.jsonl", "nightly.toml", "orchestrator.toml", "page.py", "service.env")
"""What we have written ourselves."""

REDACTED: Final = ("page", "spans", "stdout of metrics", "of the report")
"""Where nothing stands of a member that is redacted."""

LOOKS: Final = (
    "status --json", "runs show night --json", "doctor --json", "failures night", "jobs list night --json",
    "jobs show night row-0 --json", "results night", "results night --errors", "notify list --json", "notify resend",
    "flows list --json", f"flows show {FLOW} --json", f"flows lineage {FLOW} row-1 --json", f"results {FLOW}/caption",
    "schedules list --json", "schedules history nightly --json", f"report {FLOW} --json",
    "ledger info --json", "metrics show", "metrics write metrics.prom", "limits --json",
    "report night --json", "report night -o report.html --redact input.email", "verify",
)  # fmt: skip


def account_is_asked(desk: Desk, url: str, environ: Mapping[str, str], sweep: Sweep) -> None:
    """Secrets go into an account, by each interface, and a template with another one."""
    account = ("--base-url", url, "--graphql-url", f"{url}/graphql")
    template = ("--image", "i:1", "--container-disk", "5", "--serverless", "--env", "TOKEN=env:MADE")
    for secret, words in (
        (ACCOUNT_SECRET, ("secrets", "create", "s", "--value", "env:MADE", *account)),
        (ACCOUNT_SECRET, ("secrets", "create", "s2", "--value", "env:MADE", "--interface", "graphql", *account)),
        (TEMPLATE_SECRET, ("templates", "save", "t", *template, *account)),
    ):
        done = desk.call(*words, environ={**environ, "MADE": secret})
        assert sweep.ended(f"stdout of {words}", done).exit_code == 0, done
    nobody = ("--interface", "graphql", "--graphql-url", f"http://{closed_port()}/")
    assert sweep.ended("stdout of a call of nobody", desk.call("secrets", "list", *nobody, environ=environ)).exit_code


def runs_are_made(desk: Desk, url: str, environ: Mapping[str, str], sweep: Sweep) -> None:
    """One that is killed and goes on, one whose key is refused, and one that a proxy does not let out."""
    notified = [word for name in (*TARGETS, "mail", "pager", environ["PLAIN_URL"]) for word in ("--notify", name)]
    command = ("run", "night.jsonl", "--endpoint", "ep1", "--allow-env", "STORE_*", "--json")
    night = (
        *command, "--serverless-url", url, "--output", "out.jsonl", "--max-attempts", "2", "--uncertain-after", "200ms",
        "--listen", closed_port(), "--log-file", "run.log", *notified,
    )  # fmt: skip
    killed = desk.start(*night, environ=environ)
    killed.until_said("rows checked")
    until_some_ended(desk)
    sweep.ended("stdout of the killed run", killed.kill())
    shutil.copytree(desk.folder, desk.folder / "crashed")
    done = desk.call(*night, environ=environ)
    assert sweep.ended("stdout of the run", done).exit_code == 1, done
    wrong = {**environ, "ORCHESTRATOR_API_KEY": WRONG_KEY}
    refused = desk.call(*command, "--name", "refused", "--serverless-url", url, environ=wrong)
    assert "the service refused the API key" in sweep.ended("stdout with a wrong key", refused).stderr
    behind = {**environ, "HTTP_PROXY": f"http://sweeper:{PROXY_PASSWORD}@{closed_port()}"}
    away = desk.start(*command, "--name", "away", "--serverless-url", "http://service.example", environ=behind)
    away.until_said("no connection to the proxy")
    away.signal(signal.SIGINT)
    sweep.ended("stdout behind a proxy", away.ended())


def a_flow_is_carried_out(desk: Desk, url: str, environ: Mapping[str, str], sweep: Sweep) -> None:
    """One whose jobs fail by a part, and whose command says all that it knows and fails."""
    assert sweep.ended("stdout of apply", desk.call("apply", "nightly.toml", environ=environ)).exit_code == 0
    trigger = ("trigger", "nightly", "--at", "2027-03-28T02:30", "--wait", "--serverless-url", url, "--json")
    done = sweep.ended("stdout of trigger", desk.call(*trigger, environ=environ))
    assert done.exit_code == 1, done
    assert (done.summary["name"], done.summary["state"]) == (FLOW, "failed"), done


def test_no_secret_of_any_kind_is_where_it_must_not_be(desk: Desk) -> None:
    sweep = Sweep()
    with receiving() as receiver, mailbox() as (box, mail_port):
        environ = configured(desk, receiver, mail_port)
        service, url = emulator(desk)
        account_is_asked(desk, url, environ, sweep)
        dashboard = dashboard_of(desk, "--log-file", "accesses.log", **environ)
        with looking_at(dashboard) as visitor:
            runs_are_made(desk, url, environ, sweep)
            a_flow_is_carried_out(desk, url, environ, sweep)
            the_batch_api_is_asked(desk, url, environ, sweep)
            for words in LOOKS:
                sweep.ended(f"stdout of {words}", desk.call(*words.split(), environ=environ))
            key = desk.call("dashboard", "key").stdout.strip()
            link = desk.call("dashboard", "link", "--viewer").stdout.strip()
            receiver.until("/otlp")
            pages = walked(visitor, sweep, "ana")
            asked_of_forms(visitor, sweep)
            with signed_in(link) as viewer:
                walked(viewer, sweep, "a viewer")
        dashboard.signal(signal.SIGINT)
        ended = dashboard.ended()
        sweep.add("stdout of the dashboard", ended.stdout)
        sweep.add("stderr of the dashboard", *[line for line in ended.stderr.splitlines() if "login?link=" not in line])
        service.kill()
        for folder in (desk.folder, desk.folder / "crashed"):
            files_in(folder, sweep)
        for number, came in enumerate(receiver.came):
            sweep.add(f"{'spans' if came.path.startswith('/otlp') else 'message'} {number}", came.body)
        sweep.add("message by mail", *box.mails)

    assert len(pages) > 25, pages
    assert box.signed_in
    for name in ("hook", "slack", "discord", "teams", "ping", "gone", "moved", "plain", "flow"):
        assert receiver.at(f"/{name}/{target_secret(name)}"), f"{name} was told, by its whole address"
    assert TRACE_TOKEN in receiver.at("/otlp")[0].headers["authorization"]
    secrets: dict[str, str | bytes] = {
        "the API key": SERVICE_KEY, "a wrong API key": WRONG_KEY, "a value of env:": STORE_SECRET,
        "another": STORE_ID, "an account's secret": ACCOUNT_SECRET, "a template's": TEMPLATE_SECRET,
        "a mail password": MAIL_PASSWORD, "what signs messages": SIGNING, "a proxy's password": PROXY_PASSWORD,
        "a token for traces": TRACE_TOKEN, "the key of programs": key, "a cookie": visitor.cookie,
        "a link": visitor.link_token, "a viewer's link": link.partition("link=")[2],
        "the webhook key": (desk.folder / f"{LEDGER}.key").read_bytes(),
        "the dashboard's key": (desk.folder / f"{LEDGER}.dashboard" / "key").read_bytes(),
        **BATCH_KEYS, "a key that nobody has": FOREIGN_KEY,
        **{f"the address of {name}": target_secret(name) for name in TARGETS},
    }  # fmt: skip
    at_fault = {what: found for what, secret in secrets.items() if (found := sweep.found(secret, is_ours))}
    assert at_fault == {}
    for name in ("plain", "flow"):
        plain = sweep.found(target_secret(name), lambda place: is_ours(place) and not is_of_ledger(place))
        assert plain == [], "an address that a run or a pipeline was given is kept with it, and told nobody"
    for one in (f"7-{EMAIL}", f"8-{EMAIL}"):  # of a job that succeeds, and of one that fails
        assert sweep.found(one, lambda place: place.startswith(REDACTED)) == [], "what is redacted"
        assert sweep.found(one, is_of_ledger), "and is there to be found"


def is_ours(place: str) -> bool:
    """Whether nothing secret may stand there: neither what we wrote nor one of the files of keys."""
    return not place.startswith("file") or not place.endswith((*INPUTS, f"{LEDGER}.key", "dashboard/key"))


def is_of_ledger(place: str) -> bool:
    """Whether it is the ledger's own."""
    return place.startswith("values") or place.endswith((LEDGER, f"{LEDGER}-wal"))


def until_some_ended(desk: Desk) -> None:
    """Returns once the ledger of a process at work has outcomes."""
    with closing(sqlite3.connect(f"file:{desk.folder / LEDGER}?mode=ro", uri=True)) as connection:
        for _ in looks():
            if connection.execute("SELECT count(*) FROM outcomes").fetchone()[0] > JOBS // 8:
                return
    raise AssertionError("no job ever ended")
