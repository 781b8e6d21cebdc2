"""Which secrets this process has handed out, and how to take them out of what comes back."""

from collections.abc import Callable, Mapping
from typing import Final

from orchestrator.core.text.redaction import SECRET_CHARS_MIN, Redactor

API_KEY_LABEL: Final = "the API key"


class SecretScrubber:
    """Scrubs whatever a service or a worker says, before it is kept anywhere.

    `names` gives the environment variables that hold what is secret: whose values have left with a submission, of this
    process or an earlier one (the ledger knows them), and our own. Values are looked up in `environ`, and stand in
    nothing but memory. `api_keys` gives them by the URL of their service, "" for the one that needs no name. `warn` is
    told of each value that is too short to be looked for.
    """

    def __init__(
        self,
        names: Callable[[], frozenset[str]],
        environ: Mapping[str, str],
        *,
        api_keys: Callable[[], Mapping[str, str]] = dict,
        warn: Callable[[str], None],
    ) -> None:
        self._names = names
        self._environ = environ
        self._api_keys = api_keys
        self._warn = warn
        self._known: frozenset[str] | None = None
        self._known_keys: Mapping[str, str] = {}
        self._redactor = Redactor({})

    def __repr__(self) -> str:
        return "Secrets(...)"

    def scrub(self, text: bytes) -> bytes:
        """`text` without the secrets."""
        names = self._names()
        if names != self._known or self._api_keys() != self._known_keys:
            self._learn(names)
        return self._redactor.scrub(text)

    def _learn(self, names: frozenset[str]) -> None:
        fresh = sorted(names - (self._known or frozenset()))
        self._known = names
        values = {f"env:{name}": self._environ.get(name, "") for name in names}
        self._known_keys = self._api_keys()
        keys = {f"{API_KEY_LABEL} of {url}" if url else API_KEY_LABEL: key for url, key in self._known_keys.items()}
        self._redactor = Redactor({**values, **keys})
        for name in fresh:
            if 0 < len(values[f"env:{name}"]) < SECRET_CHARS_MIN:
                self._warn(
                    f"the value of {name} is shorter than {SECRET_CHARS_MIN} characters, too common to be looked for:"
                    " where a worker repeats it, it is kept and shown"
                )
