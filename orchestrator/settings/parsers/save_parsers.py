"""How it is written which members of outputs become files, and from which networks links are fetched."""

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path

import msgspec

from orchestrator.core.outputs.save_rules import SaveRule, check_apart, parse_save
from orchestrator.core.text.object_urls import checked_url, is_object_url


def parse_saves(texts: Sequence[str]) -> tuple[SaveRule, ...]:
    """The rules, with full paths: another process may be in another folder."""
    rules = tuple(map(_parse, texts))
    check_apart(rules)
    return rules


def _parse(text: str) -> SaveRule:
    rule = parse_save(text)
    if is_object_url(rule.template):
        url = checked_url(rule.template, is_written=True)
        if not is_object_url(rule.folder):
            raise ValueError(f'"{url:.80}" has a placeholder in the name of its bucket; that is the same for all rows')
        return msgspec.structs.replace(rule, template=url)
    return msgspec.structs.replace(rule, template=str(Path(rule.template).resolve()))


def parse_networks(texts: Sequence[str]) -> tuple[str, ...]:
    """Networks, or single addresses; several may stand in one text, with commas between them."""
    found = [each.strip() for text in texts for each in text.split(",")]
    for each in found:
        try:
            ip_network(each)
        except ValueError as error:
            raise ValueError(f'"{each:.80}" is no network: {error}; write it as 10.2.0.0/16 or 10.2.3.4') from None
    return tuple(found)
