"""
An agent's configuration of MCP servers, with the gateway in front of each.

Decided here: how an entry is rewritten, for every spelling that agents have of one. Not decided
here: where an agent keeps its configuration, and how it is given another for one run (the
agent's own room).

A server that is started keeps its command, behind ours. One with an address becomes one that is
started: our command. What else an entry says (time-outs, which tools are switched on) stays. The
address, which may have a key in it, and the headers go by the environment, since command lines are
public.

Rules a maintainer keeps: an entry that is not understood whole is an error and never passed on
as it is; two servers never share a name; what a workspace says of a server changes nothing about
the name that our command is given.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Final

from broker.errors import LaunchError
from broker.service.client import (
    RECORDER_VARIABLE,
    REPLAY_VARIABLE,
    SESSION_VARIABLE,
    SOCKET_VARIABLE,
    TICKET_VARIABLE,
)

HEADERS_VARIABLE: Final = "BROKER_MCP_HEADERS"
ADDRESS_VARIABLE: Final = "BROKER_MCP_URL"
HOME_VARIABLE: Final = "BROKER_HOME"
# What the gateway needs of the run; agents give their servers a part of the environment only.
_HANDED_ON: Final = (
    *(SOCKET_VARIABLE, SESSION_VARIABLE, TICKET_VARIABLE, RECORDER_VARIABLE),
    *(REPLAY_VARIABLE, HOME_VARIABLE),
)
_NOT_OF_NAMES: Final = re.compile(r"[^A-Za-z0-9_-]")
_STARTED: Final = frozenset(("stdio", "local"))
HTTP: Final = frozenset(("http", "streamable-http", "streamableHttp", "streamable_http", "remote"))
ADDRESSES: Final = ("url", "httpUrl", "serverUrl")
HEADERS: Final = ("headers", "http_headers")
# Of an entry with an address, what nobody would do any more if it were left out in silence.
_CREDENTIALS: Final = frozenset(
    (
        *("auth", "authProviderType", "bearer_token_env_var", "env_http_headers", "headersHelper"),
        *("oauth", "oauthClient", "oauthClientId", "oauthPublicClient"),
    )
)


def gateway_command() -> tuple[str, ...]:
    """Return the command of the gateway: this interpreter, whatever lies in the workspace."""
    return (sys.executable, "-I", "-c", "from broker.cli.main import main; main()", "mcp")


def wrap_servers(
    servers: Mapping[str, object], environ: Mapping[str, str] | None = None
) -> dict[str, object]:
    """
    Return the servers of an agent's configuration, each behind the gateway.

    Args:
        servers: the entries by name, as the agent spells them (``mcpServers``, ``mcp_servers``,
            ``mcp``).
        environ: the run's environment, with the socket of its session; this process's by default.

    Raises:
        LaunchError: an entry is not understood, so its server could not be held.

    >>> wrapped = wrap_servers({"git": {"command": "mcp-server-git", "args": ["-v"]}}, {})
    >>> wrapped["git"]["args"][-6:]
    ['--server', 'git', '--quiet', '--', 'mcp-server-git', '-v']
    """
    given = os.environ if environ is None else environ
    handed = {name: given[name] for name in _HANDED_ON if given.get(name)}
    names: dict[str, str] = {}
    wrapped: dict[str, object] = {}
    for name, entry in servers.items():
        plain = _NOT_OF_NAMES.sub("_", name)
        if not plain or plain in names:
            raise LaunchError(
                f"MCP servers `{names.get(plain, '')}` and `{name}` cannot be told apart"
            )
        names[plain] = name
        if not isinstance(entry, Mapping):
            raise _not_held(name, "its entry is no table")
        wrapped[name] = _wrapped(name, plain, entry, handed)
    return wrapped


def _wrapped(
    name: str, plain: str, entry: Mapping[str, object], handed: Mapping[str, str]
) -> dict[str, object]:
    kind = entry.get("type", entry.get("transport"))
    # One agent has commands as a list, and other words for the rest.
    listed = isinstance(entry.get("command"), list) or kind == "remote"
    ours = (*gateway_command(), "--server", plain, "--quiet")
    if "command" in entry:
        if any(key in entry for key in ADDRESSES) or kind not in (None, *_STARTED):
            raise _not_held(name, "it has a command, and an address or another transport")
        words = (*ours, "--", *_words(name, entry))
        return {**entry, **_started(words, listed), **_environment(name, entry, handed, listed)}
    found = [key for key in ADDRESSES if isinstance(entry.get(key), str)]
    if len(found) != 1:
        raise _not_held(name, "it has neither a command nor one address")
    if kind not in (None, *HTTP):
        raise _not_held(name, f"its transport `{kind}` is not streamable HTTP")
    if lost := sorted(_CREDENTIALS & entry.keys()):
        raise _not_held(name, f"its `{lost[0]}` is not understood: give it a header instead")
    kept = {k: v for k, v in entry.items() if k not in (*ADDRESSES, *HEADERS, "transport")}
    if kind is not None:
        kept["type"] = "local" if listed else "stdio"
    handed = {**handed, ADDRESS_VARIABLE: str(entry[found[0]]), **_headers(name, entry)}
    return {**kept, **_started(ours, listed), **_environment(name, kept, handed, listed)}


def _started(words: Iterable[str], listed: bool) -> dict[str, object]:
    """Return a command as this agent spells one: in one list, or apart from its arguments."""
    program, *arguments = words
    if listed:
        return {"command": [program, *arguments]}
    return {"command": program, "args": arguments}


def _environment(
    name: str, entry: Mapping[str, object], more: Mapping[str, str], listed: bool
) -> dict[str, object]:
    key = "environment" if listed else "env"
    found = entry.get(key) or {}
    if not isinstance(found, Mapping):
        raise _not_held(name, f"its `{key}` is no table")
    merged = {**found, **more}
    return {key: merged} if merged else {}


def _headers(name: str, entry: Mapping[str, object]) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in HEADERS:
        headers = entry.get(key) or {}
        if not isinstance(headers, Mapping):
            raise _not_held(name, f"its `{key}` is no table")
        for header, value in headers.items():
            if not isinstance(value, str):
                raise _not_held(name, f"its header `{header}` is no text")
            found[header] = value
    return {HEADERS_VARIABLE: json.dumps(found)} if found else {}


def _words(name: str, entry: Mapping[str, object]) -> list[str]:
    """Return a command and its arguments, all of them texts."""
    command, arguments = entry["command"], entry.get("args") or []
    words = command if isinstance(command, list) else [command]
    if not isinstance(arguments, list):
        raise _not_held(name, "its arguments are no list")
    texts = [word for word in (*words, *arguments) if isinstance(word, str)]
    if len(texts) != len(words) + len(arguments) or not texts or not texts[0]:
        raise _not_held(name, "its command is no text, or holds something that is none")
    return texts


def _not_held(name: str, why: str) -> LaunchError:
    return LaunchError(f"MCP server `{name}` cannot be held to the ticket: {why}")
