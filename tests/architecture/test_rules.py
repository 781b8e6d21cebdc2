"""Each rule is kept but for its list, which has no entry too many, and finds what breaks it."""

from typing import Final

import pytest

from tests.architecture import floors, patches, pythons, sizes, words
from tests.architecture.rules import LISTS, Rule
from tests.architecture.source import Module, modules

RULES: Final = (*sizes.RULES, *words.RULES, *floors.RULES, *patches.RULES, *pythons.RULES)

each_rule = pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)


@pytest.fixture(scope="module", autouse=True)
def _once_for_all() -> None:
    for module in modules("orchestrator"):
        _ = module.nodes


@each_rule
def test_the_rule_is_kept_and_its_list_has_no_entry_too_many(rule: Rule) -> None:
    found, known = rule.found(), rule.known()
    assert found - known == set(), f"breaches of a rule: {rule.name}"
    assert known - found == set(), "these are no breaches any more: python -m tests.architecture.rules"


@each_rule
def test_the_rule_finds_what_breaks_it(rule: Rule) -> None:
    assert list(rule.finds([Module(name, text) for name, text in rule.breach.items()]))


def test_each_list_is_that_of_a_rule() -> None:
    assert set(LISTS.glob("*")) <= {rule.list for rule in RULES}
