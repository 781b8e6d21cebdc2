"""What executions that failed took, where some did not say."""

import msgspec
import pytest

from orchestrator.core.diagnosis.failed_executions import FailureKind, execution_s_of


def test_those_that_did_not_say_took_as_much_as_the_others() -> None:
    assert execution_s_of(3_000, count=3, untold=0) == pytest.approx(3.0)
    assert execution_s_of(3_000, count=4, untold=1) == pytest.approx(4.0)
    assert execution_s_of(0, count=2, untold=2) == 0.0


def test_a_kind_is_written_with_the_name_of_its_class() -> None:
    kind = FailureKind(count=2, class_="failed", sample="CUDA out of memory")
    assert msgspec.to_builtins(kind) == {"count": 2, "class": "failed", "sample": "CUDA out of memory"}
