"""Who may do what, and with REST v2 how often (contract of pods, Authentication and Limits).

Not shown there, and chosen here: the permissions are those of `SCOPES`, of which `read` is for what only looks; the
quotas are those of the published examples; a window begins with its first request; a refused request does not count.
"""

import math
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType

import msgspec

from orchestrator.emulator.contract.answers import ProblemRefusal
from orchestrator.units import SECOND_US

READ = "pods:read"

SCOPES = frozenset(
    f"{family}:{access}" for family in ("pods", "serverless", "templates", "secrets") for access in ("read", "write")
)
"""Every permission that a key may have."""

_BEARER = "bearer "


class Caller(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a key or a session token stands for, and what it may do."""

    user: str = "user"
    scopes: frozenset[str] = SCOPES
    session: bool = False
    """A signed-in user's token, which may act for one of `teams` by the header; an API key may not."""
    teams: frozenset[str] = frozenset()
    team: str | None = None
    """The team inside of which an API key was made: it acts for it, header or not."""
    exempt: bool = False
    """Without rate limits, and without their headers."""

    def account(self, team_header: str | None) -> str:
        """Whose pods the request is about. A team that the user does not belong to is ignored (Authentication 4)."""
        if self.team is not None:
            return self.team
        return team_header if self.session and team_header is not None and team_header in self.teams else self.user

    def check(self, scope: str) -> None:
        """Raises ProblemRefusal 403."""
        if scope not in self.scopes:
            raise ProblemRefusal(HTTPStatus.FORBIDDEN, "access denied")


class Quota(msgspec.Struct, frozen=True, kw_only=True):
    """So many requests in so many seconds."""

    requests: int
    window_s: int


QUOTAS: Mapping[str, Quota] = MappingProxyType(
    {
        "minute": Quota(requests=60, window_s=60),
        "hour": Quota(requests=3000, window_s=3600),
        "day": Quota(requests=50_000, window_s=86_400),
    }
)
"""The numbers of the published examples (as observed)."""


class CallerAccess:
    """Checks keys and keeps the limits of each user.

    `callers` maps keys to callers; None takes any key, and all of them are one user's. `scale` is how fast the
    emulator's time runs: what callers are told of windows is in seconds of their own.
    """

    def __init__(
        self, callers: Mapping[str, Caller] | None, quotas: Mapping[str, Quota] = QUOTAS, *, scale: float = 1.0
    ) -> None:
        self._callers = callers
        self._quotas = quotas
        self._scale = scale
        self._used: dict[tuple[str, str], tuple[int, int]] = {}
        """Per user and window: since when (µs), and how many requests."""

    def takes(self, key: str) -> bool:
        """Whether the key is taken; "" never is."""
        return bool(key) and (self._callers is None or key in self._callers)

    def caller_of(self, key: str) -> Caller:
        """Whom the key, which is taken, stands for."""
        return Caller() if self._callers is None else self._callers[key]

    def permits(self, key: str, scope: str) -> bool:
        """Whether the key, which is taken, has the permission."""
        return scope in self.caller_of(key).scopes

    def caller(self, authorization: str) -> Caller:
        """Raises ProblemRefusal 401 for a token that is missing, malformed or unknown."""
        key = authorization[len(_BEARER) :].strip()
        if authorization[: len(_BEARER)].lower() != _BEARER or not key:
            raise ProblemRefusal(HTTPStatus.UNAUTHORIZED, "missing bearer token")
        if not self.takes(key):
            raise ProblemRefusal(HTTPStatus.UNAUTHORIZED, "invalid bearer token")
        return self.caller_of(key)

    def count(self, caller: Caller, now: int) -> None:
        """Counts a request that arrives at `now`. Raises ProblemRefusal 429, which names a full window."""
        if caller.exempt:
            return
        for name, quota in self._quotas.items():
            since, used = self._window(caller, name, now)
            if used >= quota.requests:
                raise exceeded(name, self._left_s(since, quota, now))
        for name in self._quotas:
            since, used = self._window(caller, name, now)
            self._used[caller.user, name] = (since, used + 1)

    def headers(self, caller: Caller, now: int) -> tuple[tuple[str, str], ...]:
        """`RateLimit` and `RateLimit-Policy` as structured fields; none for an exempt caller (Limits 4)."""
        if caller.exempt:
            return ()
        limit, policy = [], []
        for name, quota in self._quotas.items():
            since, used = self._window(caller, name, now)
            limit.append(f'"{name}";r={quota.requests - used};t={self._left_s(since, quota, now)}')
            policy.append(f'"{name}";q={quota.requests};w={self._their_s(quota.window_s)}')
        return (("ratelimit", ", ".join(limit)), ("ratelimit-policy", ", ".join(policy)))

    def _window(self, caller: Caller, name: str, now: int) -> tuple[int, int]:
        since, used = self._used.get((caller.user, name), (now, 0))
        return (since, used) if now < since + self._quotas[name].window_s * SECOND_US else (now, 0)

    def _left_s(self, since: int, quota: Quota, now: int) -> int:
        """Whole seconds until the window is over, rounded up: who waits so long is not refused again."""
        return self._their_s((since + quota.window_s * SECOND_US - now) / SECOND_US)

    def _their_s(self, seconds: float) -> int:
        return math.ceil(seconds / self._scale)


def exceeded(window: str, seconds: int) -> ProblemRefusal:
    """429 that names the window and says when it is over."""
    return ProblemRefusal(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"rate limit exceeded for the {window} window",
        headers=(("retry-after", str(seconds)),),
    )
