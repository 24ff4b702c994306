"""
What a ticket could ever allow of one server's tools, so that a model is not shown the rest.

Decided here: whether any call of a tool could pass. Not decided here: whether one does; what is
left out of a list is vetoed as well when it is called all the same.

Rules a maintainer keeps: what a server says of its own tools (annotations, descriptions) plays
no part; when in doubt a tool is shown, since the veto stands behind it.
"""

from __future__ import annotations

from broker.bounds import Bounds, narrow, root_bounds
from broker.catalogs import Argument, Catalogs, ToolEntry
from broker.language.patterns import first_unseen
from broker.limits import MAX_TOOL_CHARS
from broker.mcp.methods import full_tool
from broker.wire import read_link, read_root, split

_WRITES = frozenset(("path-write", "path-put", "path-delete", "path-nofollow", "patch"))
_READS = frozenset(("path-read", "path-list", "path-tree"))
_ADDRESSES = frozenset(("url",))


def bounds_of(wire: str) -> Bounds:
    """
    Return what a ticket's lists come to, without a key to believe it by.

    It is for showing only: the session that sent the ticket decides.

    Raises:
        TicketFormatError: not a ticket.
        AttenuationError: a link permits more than the one before it.
    """
    (first, *later), _ = split(wire)
    bounds = root_bounds(read_root(first)[3].lists)
    for block in later:
        bounds = narrow(bounds, read_link(block).lists)
    return bounds


class Offer:
    """What could be allowed of one server's tools; without a server, of an agent's own."""

    def __init__(self, bounds: Bounds, catalogs: Catalogs, server: str | None) -> None:
        self._bounds = bounds
        self._catalogs = catalogs
        self._server = server

    def admits(self, tool: str) -> bool:
        """Whether any call of the server's tool could ever be allowed."""
        name = tool if self._server is None else full_tool(self._server, tool)
        if not tool or len(name) > MAX_TOOL_CHARS or first_unseen(name) >= 0:
            return False
        bounds = self._bounds
        if not all(b.admits_some(name, name, self._server) for b in bounds.tools):
            return False
        if not bounds.seen:
            return True
        entry = self._catalogs.lookup(name, self._server)
        if entry is None or not entry.vouched or entry.effect == "opaque":
            return name in bounds.named
        return not _hopeless(bounds, entry, name in bounds.named)


def _hopeless(bounds: Bounds, entry: ToolEntry, named: bool) -> bool:
    """Whether an argument that the tool cannot do without can hold nothing that is allowed."""
    needed = {a.role for a in entry.arguments.values() if _needed(a)}
    no_host = (bounds.no_network and not named) or any(not b.patterns for b in bounds.hosts)
    return (
        (bool(needed & _WRITES) and any(not b.patterns for b in bounds.writes))
        or (bool(needed & _READS) and any(not b.patterns for b in bounds.reads))
        or (bool(needed & _ADDRESSES) and no_host)
    )


def _needed(argument: Argument) -> bool:
    return argument.required and argument.fields is None
