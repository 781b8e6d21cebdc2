"""What all has been said and left behind, to be looked through for secrets in any spelling."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.system.processes import Verdict


@dataclass
class Sweep:
    """All that was said and left behind, by where: what is looked through for secrets."""

    places: dict[str, bytes] = field(default_factory=dict)

    def add(self, place: str, *content: str | bytes) -> None:
        self.places[place] = b"\n".join(each.encode() if isinstance(each, str) else each for each in content)

    def ended(self, place: str, ended: Verdict) -> Verdict:
        """What a process has said."""
        self.add(place, ended.stdout, ended.stderr)
        return ended

    def found(self, secret: str | bytes, within: Callable[[str], bool]) -> list[str]:
        """The places at which it stands in any spelling, of those `within`."""
        raw = secret.encode() if isinstance(secret, str) else secret
        cores = [b64encode(b"x" * shift + raw)[shift and 4 : -4] for shift in range(3)]
        spelled = {raw, raw.hex().encode(), raw.decode("latin-1").encode("utf-16-le"), *cores}
        spelled |= {quote(raw, safe="").encode(), json.dumps(raw.decode("latin-1")).encode()[1:-1]}
        return [
            place
            for place, content in self.places.items()
            if within(place) and any(each in content for each in spelled)
        ]
