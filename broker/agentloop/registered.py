"""
What the agent registers besides its tools: commands, providers, a flag.

Decided here: that whoever puts the agent together, to run it or to tell what it is made of, does it
with the same items. Not decided here: what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from broker.agentloop.providers import endpoints, provider_items
from broker.agentloop.sitting import Sitting
from broker.agentloop.slash import slash_commands
from broker.config import Config
from broker.harness.items import Flag, Item
from broker.limits import MAX_AGENT_TURNS

TURNS: Final = Flag("turns", "turns of an agent for one line, at most", MAX_AGENT_TURNS)


def agent_items(
    at: Callable[[], Sitting], config: Config, environ: Mapping[str, str]
) -> tuple[Item, ...]:
    """
    Return the items.

    Args:
        at: returns the sitting that a command is typed in; it is asked then, and not before.
        config: the person's settings.
        environ: what the addresses of providers may be set by.
    """
    found = endpoints(config.models, environ)
    return (*slash_commands(at), *provider_items(found), TURNS)
