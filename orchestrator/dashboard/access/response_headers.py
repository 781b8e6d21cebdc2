"""The security headers of every answer, CSP among them: nothing but our own files is loaded, nobody frames us, types
are not guessed.
"""

from typing import Final

from starlette.datastructures import MutableHeaders

CONTENT_SECURITY_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self';"
    " base-uri 'none'; frame-ancestors 'none'"
)

SECURITY_HEADERS: Final = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


OPENER_POLICY: Final = "Cross-Origin-Opener-Policy"


def harden(headers: MutableHeaders, *, is_trusted: bool) -> None:
    """Adds them; what is not said to be kept is not kept. Pages that browsers trust may say who has opened them."""
    for name, value in SECURITY_HEADERS.items():
        headers[name] = value
    if is_trusted:
        headers[OPENER_POLICY] = "same-origin"
    if "Cache-Control" not in headers:
        headers["Cache-Control"] = "private, no-cache"
