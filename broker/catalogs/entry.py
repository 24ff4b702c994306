"""
What a catalog says about one tool: what it does, and what each of its arguments means.

Rules a maintainer keeps: a new role is read in ``broker.resolve`` before a catalog uses it; a
role that is not known is an error and never plain text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

Effect = Literal["read", "write", "egress", "opaque", "delegate", "none"]

EFFECTS: Final = {
    "read": "reads local files, or a state of its own, that its arguments name",
    "write": "changes local files, or a state of its own, that its arguments name",
    "egress": "reaches the network; every address stands in its arguments",
    "opaque": "its effects cannot be told from its arguments",
    "delegate": "starts a helper whose own calls are each decided; touches nothing itself",
    "none": "touches nothing outside the conversation",
}

ROLES: Final = {
    "path-read": "a path that is read",
    "path-write": "a path that is written",
    "path-put": "a path where another argument's file or folder is put, or a new folder's tree",
    "path-delete": "a path that is removed or moved away, with all below it; a link goes itself",
    "path-list": "a folder whose own entries are listed",
    "path-tree": "a folder that is searched or read with everything below it, or a file",
    "path-nofollow": "a path that is written, where a link is replaced and not followed",
    "link-target": "where a new link leads, read from the link's own folder",
    "cwd": "the folder that the call's relative paths start from",
    "url": "an address that is reached",
    "proxy-url": "a proxy through which addresses are reached",
    "file-url": "an address that may name a local file",
    "headers": "HTTP headers; one named Host is a destination",
    "glob-in": "a pattern below the tool's folder argument, whose tree is read if it recurses",
    "patch": "a patch; the files that it names are written",
    "nested-calls": "calls inside this call",
    "opaque": "a command or program: its effects cannot be told from its text",
    "escape": "a switch that lifts limits: absent or false, or the call is refused",
    "search-regex": "a text to search for",
    "address": "an address that is reached, which may be spelled without `https://`",
    "recipient": "who receives something: an account, a mailbox, a person, a channel",
    "identifier": "what is acted on: the name or number of a thing that is no local path",
    "amount": "how much: a number",
    "date": "when: a day, with or without a time",
    "permission": "what the call may do, or lets others do: a mode, a role, a switch",
    "text": "free text that names nobody and nothing: never a path or an address",
}

# These may be absent without a word in the catalog, since tools have a harmless default.
_LOOSE: Final = frozenset(
    (
        *("cwd", "proxy-url", "headers", "opaque", "escape", "search-regex", "text"),
        *("recipient", "identifier", "amount", "date", "permission"),
    )
)


@dataclass(frozen=True, slots=True)
class Argument:
    """
    One argument: its role, or the arguments inside it.

    ``default`` is the path that the tool takes when the argument is absent. ``many`` says that
    it is a list: a rule's condition is then asked of each element.
    """

    role: str
    default: str | None = None
    optional: bool = False
    fields: Mapping[str, Argument] | None = None
    many: bool = False

    @property
    def required(self) -> bool:
        """Whether a call without it cannot be judged."""
        return self.default is None and not self.optional and self.role not in _LOOSE


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """
    What is known of one tool.

    ``name`` is the name as calls spell it (``mcp__SERVER__TOOL`` for a tool of an MCP server).
    ``others`` is ``text`` when arguments that are not listed are known to be plain text.
    ``vouched`` is false for an entry that the workspace itself brought: a repository cannot
    vouch for a tool, so such an entry can only make its checks stricter.
    """

    name: str
    server: str | None
    effect: Effect
    arguments: Mapping[str, Argument] = field(default_factory=dict)
    others: Literal["judge", "text"] = "judge"
    vouched: bool = True
    source: str = ""
    line: int = 1
