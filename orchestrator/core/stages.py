"""Which stage of a pipeline hands over to which, and what of that cannot be."""

from collections.abc import Iterator, Sequence

from orchestrator.core.pipelines import ALL, INPUT, WHOLE, Stage


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
    waiting = list(by_name[name].from_)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += by_name[each].from_ if each in by_name else ()
    return frozenset(found)


def followers(stages: Sequence[Stage], name: str) -> tuple[Stage, ...]:
    """The stages that `name` hands over to."""
    return tuple(stage for stage in stages if name in stage.from_)


def problems(stages: Sequence[Stage]) -> Iterator[tuple[str, str, str]]:
    """What does not fit together, once the stages are known to be in an order: stage, key, and why."""
    for stage in stages:
        yield from ((stage.name, key, why) for key, why in _problems(stage, stages))


def _problems(stage: Stage, stages: Sequence[Stage]) -> Iterator[tuple[str, str]]:
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
    if stage.step is not None and stage.command:
        yield "step", "a command is given the files of results; it has no step"


def _of_gather(gathered: str, stage: Stage, stages: Sequence[Stage]) -> Iterator[str]:
    if stage.command:
        yield "a command is given all rows anyway"
    elif stage.step is None:
        yield "what is gathered goes to one call of a function: step is missing"
    known = {ALL, *ancestors(stages, stage.name)}
    if gathered not in known:
        yield f"{gathered} is no ancestor of {stage.name}; there are {', '.join(sorted(known))}"
