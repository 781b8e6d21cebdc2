"""However much a template could come to, it comes to little time and memory, or to a problem of its row."""

import resource

import pytest

from orchestrator.formats.templates.bounds import MEMBER, SIZE_MAX, check_call, checked_operation, weight
from orchestrator.formats.templates.field_templates import template_of

ROW = {"text": "a fox\n" * 1_000, "n": 10**10, "words": ["a", "fox"], "b": {"c": [1, 2.5, None, True]}}

TOO_MUCH = [
    "{{ 'x' * 10**10 }}",
    "{{ 10**10 * 'x' }}",
    "{{ row.text * row.n }}",
    "{{ [row.text] * row.n }}",
    "{{ ('x' * 10**6) * 10**6 }}",
    "{{ [[[['x'] * 1000] * 1000] * 1000] * 1000 }}",
    "a {{ [[[['x'] * 1000] * 1000] * 1000] * 1000 }}",
    "{{ ([[['x'] * 1000] * 1000] * 1000) | tojson }}",
    "{{ ([[['x'] * 1000] * 1000] * 1000) ~ 'x' }}",
    "{{ 10 ** (10 ** 10) }}",
    "{{ 10 ** 5000 * 10 ** 5000 }}",
    "{{ 'x' | center(10**10) }}",
    "{{ 'x' | center(width=10000000000) }}",
    "{{ 'x'.center(row.n) }}",
    "{{ 'x'.ljust(row.n) }}",
    "{{ 'x'.zfill(row.n) }}",
    "{{ ''.center(row.n) }}",
    "{{ (0).to_bytes(row.n, 'big') }}",
    "{{ '\t\t'.expandtabs(row.n) }}",
    "{{ (1).to_bytes(row.n, 'big') }}",
    "{{ '%10000000000d' % 1 }}",
    "{{ '%*d' % (row.n, 1) }}",
    "{{ '%10000000000d' | format(1) }}",
    "{{ '{:>10000000000}'.format(1) }}",
    "{{ '{:>{}}'.format(1, row.n) }}",
    "{{ row.text | indent(100000) }}",
    "{{ row.text | indent('x' * 100000) }}",
    "{{ row.text | wordwrap(1, wrapstring='x' * 100000) }}",
    "{{ row.text | replace('o', 'x' * 100000) }}",
    "{{ row.text.replace('o', 'x' * 100000) }}",
    "{{ range(99999) | join('x' * 1000) }}",
    "{{ ('x' * 10000).join(row.text) }}",
    "{{ 5 | round(-10000000000) }}",
    "{{ 5.5 | round(10000000000, 'floor') }}",
    "{% for a in range(99999) %}{{ row.text }}{% endfor %}",
    "{% for a in range(99999) %}{{ 'x' }}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" + "y" * 1_000 + "{% endfor %}",
    "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
    "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
    "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
]  # fmt: skip

TOO_MUCH_LATE = [
    "{% set l = [1] %}{% for a in range(99) %}{% set _ = l.extend(l) %}{% endfor %}{{ l | length }}",
    "{{ range(99999) | map('string') | join('x' * 1000) }}",
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% set ns = namespace(s=['x']) %}{% for a in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
]  # fmt: skip
"""What is found out late, of the kinds of others."""


@pytest.mark.parametrize(
    "template", [*TOO_MUCH, *(pytest.param(template, marks=pytest.mark.slow) for template in TOO_MUCH_LATE)]
)
def test_what_would_come_to_too_much_is_a_problem_of_its_row(template: str) -> None:
    made = template_of(template)
    before = resource.getrusage(resource.RUSAGE_SELF)
    with pytest.raises(ValueError, match=r"this makes more of one row than templates may|maximum recursion depth"):
        made(ROW)
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_maxrss - before.ru_maxrss < 200_000, "kilobytes"
    assert after.ru_utime - before.ru_utime < 10


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("{{ 'ab' * 3 }}", "ababab"),
        ("{{ row.n + 1 }}", 10**10 + 1),
        ("{{ row.n * 2 ** 3 % 7 }}", 10**10 * 8 % 7),
        ("{{ [1] + [2] }}", [1, 2]),
        ("{{ row.words | join(', ') }}!", "a, fox!"),
        ("{{ row.words | map('upper') | join('-') }}", "A-FOX"),
        ("{{ row.words[0] ~ row.n ~ row.words[1] }}", "a10000000000fox"),
        ("{{ '%05.1f' % 2.5 }}", "002.5"),
        ("{{ '%s of %s' | format(1, 2) }}", "1 of 2"),
        ("{{ '{:>4}'.format(1) }}", "   1"),
        ("{{ 'x' | center(5) }}", "  x  "),
        ("{% for word in row.words %}{{ loop.index }}{{ word }} {% endfor %}", "1a 2fox "),
        ("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(1) }}{{ f(row.words[1]) }}", "<1><fox>"),
        ("{{ row.b }}", {"c": [1, 2.5, None, True]}),
        ("{{ row.text | length }}", 6_000),
        ("{{ (row.text * 100) | length }}", 600_000),
        ("{{ 2.567 | round(1) }}", 2.6),
        ("{{ row.text.replace('fox', 'cat') | wordwrap(20) | length > 100 }}", True),
    ],
)
def test_what_templates_are_for_is_as_it_was(template: str, value: object) -> None:
    assert template_of(template)(ROW) == value


def test_each_row_has_its_own_allowance() -> None:
    made = template_of("{{ (row.text * 500) | length }}")
    assert [made(ROW) for _ in range(50)] == [3_000_000] * 50


def test_what_is_in_something_counts_as_often_as_it_is_there() -> None:
    shared = ["xyz"] * 3
    assert weight([shared, shared]) == MEMBER * 3 + 2 * 9
    assert weight({"ab": "c"}) == MEMBER + 2 + 1
    assert weight([[["x" * 100] * 1_000] * 1_000] * 1_000) > SIZE_MAX
    assert (checked_operation("+", "ab", "c"), checked_operation("*", "ab", 3), checked_operation("*", 2.5, 2)) == (
        3,
        6,
        0,
    )
    assert checked_operation("*", "ab", -1) == 0
    assert check_call("a-b".replace, ("-", "+++"), {}) == 6
    assert check_call("ab".replace, (1, 2), {}) == 0
    assert check_call("\t".expandtabs, (), {}) == 8
    assert check_call({}.update, ({"a": 1},), {}) == 3 * MEMBER + 1


def test_what_a_loop_makes_is_paid_for_at_each_turn() -> None:
    made = template_of("{% for a in range(99999) %}" + "y" * 1_000 + "{% endfor %}")
    with pytest.raises(ValueError, match="this makes more of one row than templates may"):
        made(ROW)


@pytest.mark.slow
def test_turns_that_make_nothing_are_paid_for_too() -> None:
    loops = "{% set few = range(N)|list %}{% for a in few %}{% for b in few %}{% endfor %}{% endfor %}"
    assert template_of(loops.replace("N", "200"))(ROW) == ""
    with pytest.raises(ValueError, match="this makes more of one row than templates may"):
        template_of(loops.replace("N", "600"))(ROW)


def test_an_operation_is_looked_at_before_it_is_carried_out() -> None:
    made = template_of("{{ 10 ** 20000 % 7 }}")
    with pytest.raises(ValueError, match="4,000 characters, digits"):
        made(ROW)
