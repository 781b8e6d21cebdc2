"""A test that is not slow may take so much, and no more."""

import subprocess
import sys

import pytest

from tests.costs import CPU_S_MAX, Costs, check, cpu_s, main

BUSY = "import time\nwhile time.process_time() < 0.3: pass"


def test_who_takes_too_much_fails_and_is_told_what_to_do() -> None:
    with pytest.raises(pytest.fail.Exception, match=": make it cheaper, or mark it"):
        check(CPU_S_MAX * 100)
    check(CPU_S_MAX * 0.9)
    check(CPU_S_MAX * 1.9, factor=2.0)


def test_each_test_here_is_looked_at(request: pytest.FixtureRequest) -> None:
    assert any(isinstance(plugin, Costs) for plugin in request.config.pluginmanager.get_plugins())


def test_what_a_process_takes_counts_while_it_lives_and_afterwards() -> None:
    before_s = cpu_s()
    with subprocess.Popen(
        [sys.executable, "-c", f"{BUSY}\nprint(flush=True)\ninput()"], stdin=-1, stdout=-1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.read(1)
        assert cpu_s() - before_s >= 0.25
        process.stdin.close()
        process.wait()
    assert cpu_s() - before_s >= 0.25


def test_a_command_ends_as_it_would_and_with_what_it_took(capfd: pytest.CaptureFixture[str]) -> None:
    assert main([sys.executable, "-c", "print('done'); raise SystemExit(3)"]) == 3
    assert "CPU-minutes, " in capfd.readouterr().out
