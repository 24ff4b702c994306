"""
What installed packages add: agents that can be held, and providers of models.

A package adds them by entry points: ``broker.agents``, named by the program that starts the agent,
leads to a class that is an ``Adapter``; ``broker.providers``, named by what is typed before the
slash of a model, leads to an ``Endpoint``.

Decided here: which of them is meant by a name, and that nothing is loaded that nobody named. Not
decided here: what an adapter or a provider does (``broker.agents.adapter``,
``broker.agentloop.providers``). What is loaded runs as the broker itself, so it is trusted as far
as the environment that the broker is installed in.

Rules a maintainer keeps: what is built in goes first, so that a package replaces none of it and
decides nothing for it; a name that two packages claim is an error; a package that cannot be loaded
is one, too, since what it would have held would not be held; nothing is found in the folder that
the broker is started in.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from broker.boundary import contained
from broker.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.metadata import EntryPoint

    from broker.agentloop.providers import Endpoint

AGENTS: Final = "broker.agents"
PROVIDERS: Final = "broker.providers"


def added(group: str, name: str) -> EntryPoint | None:
    """
    Return what an installed package adds under a name, or None.

    Args:
        group: ``AGENTS`` or ``PROVIDERS``.
        name: of a program, or of a provider.

    Raises:
        LaunchError: two packages claim the name.

    >>> added(AGENTS, "no-such-program") is None
    True
    """
    from importlib.metadata import distributions  # noqa: PLC0415  only where a name is not ours

    here = os.path.realpath(os.curdir)
    path = [place for place in sys.path if place and os.path.realpath(place) != here]
    claims: dict[tuple[str, str], EntryPoint] = {}
    for package in distributions(path=path):
        for entry in package.entry_points:
            if (entry.group, entry.name) == (group, name):
                claims[str(package.metadata["Name"]), entry.value] = entry
    if len(claims) > 1:
        who = ", ".join(sorted(f"`{package}`" for package, _ in claims))
        raise LaunchError(f"`{name}` is claimed by several packages: {who}; uninstall all but one")
    return next(iter(claims.values()), None)


def loaded(entry: EntryPoint) -> object:
    """
    Return what an entry point leads to.

    Raises:
        LaunchError: it cannot be loaded.
    """
    return contained(entry.load, partial(_not_loaded, entry))


def with_added(found: Sequence[Endpoint], wanted: str) -> tuple[Endpoint, ...]:
    """
    Return providers, and the one that an installed package adds, if a person names it.

    Args:
        found: the providers that are known and configured, which go first.
        wanted: ``PROVIDER/MODEL`` or ``PROVIDER``, as typed.

    Raises:
        LaunchError: several packages add one, or what one adds is no provider of that name.
    """
    from broker.agentloop.providers import DIALECTS, Endpoint  # noqa: PLC0415  as above

    name = wanted.partition("/")[0]
    taken = not name or any(each.name == name for each in found)
    entry = None if taken else added(PROVIDERS, name)
    if entry is None:
        return tuple(found)
    made = loaded(entry)
    if not isinstance(made, Endpoint) or made.name != name or made.api not in DIALECTS:
        raise LaunchError(f"what a package adds for `{name}` is no provider of that name")
    return (*found, made)


def _not_loaded(entry: EntryPoint, error: Exception) -> object:
    raise LaunchError(
        f"`{entry.name}` is added by an installed package, which cannot be loaded: "
        f"{type(error).__name__}: {error}"
    ) from error
