"""
How a person's scope is read, for a session that begins and in one that runs.

Decided here: that both read it alike, with the person's own policies and what is known of tools
here. Not decided here: what a text means (``broker.scope``), and what a model may ask for, which
names no policy (``broker.sessions.ground``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from broker.catalogs import Catalogs
from broker.home import Home
from broker.policy import policy_loader
from broker.scope import Scope, parse_scope

POLICIES: Final = "policies"  # the folder of the person's own, in the configuration folder


def typed_scope(texts: Sequence[str], *, at: int, home: Home, catalogs: Catalogs) -> Scope:
    """
    Read what a person typed.

    Args:
        texts: ``KEY=VALUE`` and ``@policy`` texts.
        at: the instant, in nanoseconds since the Unix epoch, that durations count from.
        home: where the person's own policies lie.
        catalogs: what is known of tools.

    Raises:
        ScopeError, PolicyError: a text is malformed, or a policy is missing.
    """
    groups = catalogs.groups()
    policies = policy_loader((home.config / POLICIES,), groups=groups)
    return parse_scope(texts, at=at, groups=groups, policies=policies, lookup=catalogs.known)
