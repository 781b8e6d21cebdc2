"""Targets as the configuration file has them, and what is said of mistakes, with their line."""

from pathlib import Path

import pytest

from orchestrator.errors import UsageError
from orchestrator.settings.configuration_file import RUNS, ConfigurationFile
from orchestrator.settings.monitoring.notify_targets import MailSecurity, NotifyTarget, TargetKind, Targets
from orchestrator.settings.monitoring.target_file import read_dashboard_url, read_targets
from orchestrator.units import MINUTE_US


def read(folder: Path, text: str) -> Targets:
    (folder / "o.toml").write_text(text)
    return read_targets(ConfigurationFile(folder / "o.toml"))


def test_a_target_of_each_kind_is_read(tmp_path: Path) -> None:
    found = read(
        tmp_path,
        """
        [notify.ops]
        kind = "slack"
        url = "env:OPS"
        on = ["failed", "done"]
        template = "{title}"
        [notify.mail]
        kind = "email"
        server = "smtp.example.org:2525"
        security = "tls"
        user = "me"
        password = "env:PASS"
        from = "o@example.org"
        to = ["a@example.org", "b@example.org"]
        [notify.hook]
        kind = "webhook"
        url = "env:HOOK"
        secret = "env:SIGN"
        [notify.pager]
        kind = "command"
        command = ["page", "--now"]
        [notify.night]
        kind = "ping"
        url = "env:NIGHT"
        fail = "env:BAD"
        [notify.alive]
        kind = "ping"
        heartbeat = "env:ALIVE"
        every = "5m"
        """,
    )
    assert found["ops"] == NotifyTarget(kind=TargetKind.SLACK, url="env:OPS", on=("done", "failed"), template="{title}")
    assert (found["mail"].security, found["mail"].to) == (MailSecurity.TLS, ("a@example.org", "b@example.org"))
    assert (found["pager"].command, found["night"].fail) == (("page", "--now"), "env:BAD")
    assert (found["alive"].heartbeat, found["alive"].every_us) == ("env:ALIVE", 5 * MINUTE_US)
    assert found["alive"].variables == {"ALIVE"}
    assert not found["alive"].wants("failed")
    assert found["night"].wants("failed")
    assert found["hook"].variables | found["mail"].variables == {"HOOK", "SIGN", "PASS"}


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('kind = "slak"\nurl = "env:A"', 3, '"slak" is none of webhook'),
        ('url = "env:A"', 2, "does not say its kind"),
        ('kind = "slack"', 2, "a target of kind slack needs url"),
        ('kind = "slack"\nurl = "https://hooks.slack.com/services/very-secret"', 4, "write env:NAME"),
        ('kind = "slack"\nurl = "env:A"\nsecret = "env:B"', 5, "a target of kind slack has none"),
        ('kind = "slack"\nurl = "env:A"\non = ["falied"]', 5, '"falied" is none of'),
        ('kind = "slack"\nurl = "env:A"\ntemplate = "{nmae}"', 5, '"{nmae}" means nothing'),
        ('kind = "slack"\nurl = "env:A"\nulr = "x"', 5, 'there is no key "ulr"; did you mean url'),
        ('kind = "email"\nserver = "x y"\nfrom = "a@b.org"\nto = ["c@d.org"]', 4, "is no server"),
        ('kind = "email"\nserver = "x"\nfrom = "a@b.org\\nBcc: x"\nto = ["c@d.org"]', 5, "is no mail address"),
        ('kind = "email"\nserver = "x"\nfrom = "a@b.org"\nto = ["c@d.org"]\nuser = "me"', 7, "go together"),
        ('kind = "ping"', 2, "a target of kind ping needs url or heartbeat"),
        ('kind = "ping"\nurl = "env:A"\nevery = "5m"', 5, "it goes together with heartbeat"),
        ('kind = "ping"\nheartbeat = "env:A"\nfail = "env:B"', 5, "it goes together with url"),
        ('kind = "ping"\nheartbeat = "env:A"\nevery = "10ms"', 5, "must be at least 1 s"),
        ('kind = "ping"\nheartbeat = "https://hc-ping.com/very-secret"', 4, "write env:NAME"),
        ('kind = "slack"\nurl = "env:A"\nheartbeat = "env:A"', 5, "a target of kind slack has none"),
        ('kind = "command"\ncommand = []', 2, "needs command"),
    ],
)
def test_a_mistake_is_refused_with_file_and_line_and_without_what_is_secret(
    tmp_path: Path, text: str, line: int, why: str
) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, f'# of ours\n[notify.ops]\n{text}\n[notify.other]\nkind = "slack"\nurl = "env:B"\n')
    assert str(refused.value).startswith(f"{tmp_path}/o.toml:{line}: [notify.ops]")
    assert why in str(refused.value)
    assert "very-secret" not in str(refused.value)


@pytest.mark.parametrize("name", ['"2nd"', '"a b"', '"ops:failed"', f'"{"a" * 41}"'])
def test_a_name_that_could_not_be_written_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="this is no name of a target"):
        read(tmp_path, f'[notify.{name}]\nkind = "slack"\nurl = "env:A"\n')
    with pytest.raises(UsageError, match="has a table for each target"):
        read(tmp_path, '[notify]\nops = "slack"\n')


def test_who_all_runs_tell_stands_alone_or_beside_the_targets(tmp_path: Path) -> None:
    alone, beside = tmp_path / "a.toml", tmp_path / "b.toml"
    alone.write_text('notify = "https://hooks.example/x"\n')
    beside.write_text('[notify]\nto = ["ops:failed", "mail"]\n[notify.ops]\nkind = "slack"\nurl = "env:A"\n')
    assert ConfigurationFile(alone).of_section(RUNS)["notify"].texts == ("https://hooks.example/x",)
    assert read_targets(ConfigurationFile(alone)) == {}
    assert ConfigurationFile(beside).of_section(RUNS)["notify"].texts == ("ops:failed", "mail")
    assert list(read_targets(ConfigurationFile(beside))) == ["ops"]


def test_where_people_reach_the_dashboard_is_read_for_links(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('[dashboard]\nurl = "https://jobs.example/o"\n')
    assert read_dashboard_url(ConfigurationFile(tmp_path / "o.toml")) == "https://jobs.example/o"
    assert read_dashboard_url(ConfigurationFile(None)) == ""
    (tmp_path / "o.toml").write_text('[dashboard]\nurl = "nonsense"\n')
    with pytest.raises(UsageError, match=r"url in \[dashboard\]"):
        read_dashboard_url(ConfigurationFile(tmp_path / "o.toml"))
