"""Which stage of a pipeline hands over to which, and what of that cannot be."""

from collections.abc import Iterator, Sequence

from orchestrator.core.pipelines.pipeline import ALL, INPUT, Stage
from orchestrator.units import WHOLE


def in_order(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """`stages`, each after all that hand over to it, else as they stand. Raises `ValueError` for a circle."""
    left, done = list(stages), {INPUT}
    ordered = []
    while left:
        ready = next((stage for stage in left if done.issuperset(stage.from_)), None)
        if ready is None:
            circle = " and ".join(stage.name for stage in left)
            raise ValueError(f"{circle} hand over to each other in a circle; each stage takes from earlier ones")
        left.remove(ready)
        done.add(ready.name)
        ordered.append(ready)
    return tuple(ordered)


def ancestors(stages: Sequence[Stage], name: str) -> frozenset[str]:
    """All that rows of the stage `name` can have come through, `INPUT` included, itself not."""
    by_name = {stage.name: stage for stage in stages}
    found: set[str] = set()
    waiting = list(_named(stages, name).from_)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += by_name[each].from_ if each in by_name else ()
    return frozenset(found)


def on_the_way(stages: Sequence[Stage], name: str) -> frozenset[str]:
    """The stages that have to be over with a row before the stage `name` can be given all that came of it: from the
    one that it gathers by on, itself not.
    """
    above = ancestors(stages, name) - {INPUT}
    gathered = _named(stages, name).gather
    if gathered in (None, INPUT, ALL):
        return above
    return frozenset(each for each in above if each == gathered or gathered in ancestors(stages, each))


def is_barrier(stage: Stage) -> bool:
    """Whether it begins once all stages before it are over."""
    return bool(stage.command) or stage.gather == ALL


def is_enough(needs: int, *, succeeded: int, failed: int) -> bool:
    """Whether so many rows, of those that should have come, are what a stage needs."""
    return succeeded * WHOLE >= needs * (succeeded + failed)


def followers(stages: Sequence[Stage], name: str) -> tuple[Stage, ...]:
    """The stages that `name` hands over to."""
    return tuple(stage for stage in stages if name in stage.from_)


def _named(stages: Sequence[Stage], name: str) -> Stage:
    return next(stage for stage in stages if stage.name == name)


def problems(stages: Sequence[Stage]) -> Iterator[tuple[str, str, str]]:
    """What does not fit together, once the stages are known to be in an order: stage, key, and why."""
    for stage in stages:
        yield from ((stage.name, key, why) for key, why in _problems(stage, stages))


def _problems(stage: Stage, stages: Sequence[Stage]) -> Iterator[tuple[str, str]]:
    if len(set(stage.from_)) < len(stage.from_):
        yield "from", "a stage stands there twice"
    if stage.from_ == (INPUT,):
        for key, value in (("step", stage.step), ("gather", stage.gather), ("command", stage.command)):
            if value:
                yield key, "the first stage is handed the rows of the input as they are; what makes them is a command's"
        return
    if stage.gather is not None:
        yield from (("gather", why) for why in _of_gather(stage.gather, stage, stages))
    elif not stage.command:
        if len(stage.from_) > 1:
            yield "from", "rows of several stages come together by gather or in a command only"
        if stage.needs != WHOLE:
            yield "needs", "rows are handed over one by one; needs is for command and gather"
    if stage.command:
        yield from _of_command(stage)


def _of_command(stage: Stage) -> Iterator[tuple[str, str]]:
    for key, value in (("step", stage.step), ("max-failed", stage.max_failed), ("reuse", stage.reuse_us)):
        if value is not None:
            yield key, f"a command is given the files of results once all of them are there; it has no {key}"


def _of_gather(gathered: str, stage: Stage, stages: Sequence[Stage]) -> Iterator[str]:
    if stage.command:
        yield "a command is given all rows anyway"
    elif stage.step is None:
        yield "what is gathered goes to one call of a function: step is missing"
    known = {ALL, *ancestors(stages, stage.name)}
    if gathered not in known:
        yield f"{gathered} is no ancestor of {stage.name}; there are {', '.join(sorted(known))}"
    elif gathered != ALL:
        yield from _between(gathered, stage, stages)


def _between(gathered: str, stage: Stage, stages: Sequence[Stage]) -> Iterator[str]:
    """Why rows of `stage` cannot be told by the row of `gathered` that they came of."""
    way = on_the_way(stages, stage.name)
    known = {INPUT, *way} if gathered == INPUT else way
    for name in [each.name for each in stages if each.name in way - {gathered}] + [stage.name]:
        each = _named(stages, name)
        if each.command:
            yield f"what the command of {name} prints comes of all rows; write {ALL}"
        elif name != stage.name and each.gather is not None and each.gather not in known:
            yield f"a row of {name} comes of several rows of {gathered}; write {ALL}"
        yield from (
            f"rows of {source} do not come of {gathered}, and {name} is handed them, too"
            for source in each.from_
            if source not in known
        )
