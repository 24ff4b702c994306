"""
Points an agent at the servers of a recording, and says which upstreams they stand for.

Decided here: that an address which is no server's turns the layer off, and nothing else. Not
decided here: where an agent's model is (``broker.agents``, a ``model`` in each room).
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.agents.adapter import Adapter, Launch, Prepared
from broker.agents.models import Front
from broker.capture.upstream import ModelUpstream
from broker.errors import InputError


@dataclass(frozen=True, slots=True)
class Pointed:
    """How an agent is started, and the upstreams that it asks through us; or why it does not."""

    prepared: Prepared
    upstreams: tuple[ModelUpstream, ...] = ()
    off: str = ""


def pointed(adapter: Adapter, launch: Launch, prepared: Prepared, front: Front) -> Pointed:
    """
    Return how an agent is started so that it asks us.

    Raises:
        LaunchError: what it needs cannot be written.
    """
    found = adapter.through(launch, prepared, front)
    if found.off:
        return Pointed(prepared, off=found.off)
    try:
        upstreams = tuple(ModelUpstream.read(m.name, m.url, m.keys) for m in found.models)
    except InputError as error:
        return Pointed(prepared, off=str(error))
    return Pointed(found.prepared, upstreams)
