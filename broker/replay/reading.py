"""
What a call of a run touched, told after the run.

Decided here: from which of what is left of a run a call is read, and what cannot be told any more.
Where its arguments were kept they are read again, over the workspace as a snapshot has it
(``snapshot``) or as text alone (``text``), and what the receipt says it touched is held against the
ticket besides, since that was read while the links were there. Without arguments the receipt alone
speaks (``receipt``). Not decided here: whether the call may run (``broker.authorize``).

Rules a maintainer keeps: two readings of a call are both held against the ticket, so that a poorer
one never lets through what a better one refuses; what is not known is said and never guessed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from broker.calls import Access, Call, Fault, PathSubject, UrlSubject
from broker.catalogs import Catalogs
from broker.language.toolnames import full_name
from broker.limits import MAX_TEXT_CHARS
from broker.replay.seen import SeenCall
from broker.resolution.addresses import read_address
from broker.resolution.arguments import Unreadable
from broker.resolution.places import DiskPaths, DiskReading, in_settings
from broker.resolution.realpaths import in_git, under_any
from broker.resolve import Resolver

How = Literal["snapshot", "text", "receipt"]

HOW: Final[Mapping[How, str]] = {
    "snapshot": "read again from the arguments, over the workspace as it was",
    "text": "read again from the arguments, as text: links of the workspace are not known",
    "receipt": "taken from what the receipt says it touched: its arguments are not known",
}
_FROM: Final = "as recorded"  # where a subject stands that only the receipt tells of
_CUT: Final = "…"
_HIDDEN: Final = "[hidden"

_CUT_SHORT: Final = "the receipt names only some of what it touched"
_LEFT_OUT: Final = "a secret stood in its arguments, and was not recorded"
_NESTED: Final = "calls stand inside it, and the receipt does not tell their tools"


@dataclass(frozen=True, slots=True)
class ReadCall:
    """A call of a run and what it touched; ``unknown`` says what of that cannot be told."""

    seen: SeenCall
    call: Call
    how: How
    unknown: str = ""

    @property
    def name(self) -> str:
        """The whole name of its tool, as a scope spells it."""
        call = self.call
        return call.tool if call.server is None else full_name(call.tool, call.server)


class Elsewhere(DiskPaths):
    """
    The files of a workspace as they lie in another folder, where they were restored.

    Args:
        workspace: the folder that the run had, which calls and links name; it may be gone.
        where: the folder that holds its files now; an empty one, to read paths as text.
        own: absolute folders of the broker, links already followed.

    Raises:
        InputError: there is no folder ``where``.
    """

    def __init__(self, workspace: str, where: str, own: Sequence[str] = ()) -> None:
        super().__init__(where, own)
        self.spelled = os.path.normpath(workspace)

    def begin(self) -> DiskReading:
        """Return a reader of paths for one call; what lies at the old place plays no part."""
        return DiskReading(self)


class CallReader:
    """
    Reads the calls of one run.

    Args:
        workspace: the folder that the run had.
        catalogs: what is known of tools.
        own: absolute folders of the broker, links already followed.
        where: a folder with the workspace's files as they were, or an empty one; None where no
            arguments are to be read.
        how: which of the two ``where`` is.
    """

    def __init__(
        self,
        workspace: str,
        catalogs: Catalogs,
        own: Sequence[str] = (),
        where: str | None = None,
        how: Literal["snapshot", "text"] = "text",
    ) -> None:
        self._workspace = os.path.normpath(workspace)
        self._catalogs = catalogs
        self._own = tuple(own)
        self._how: Literal["snapshot", "text"] = how
        self._resolver = (
            None
            if where is None
            else Resolver(where, catalogs, paths=Elsewhere(workspace, where, own))
        )

    def read(self, seen: SeenCall) -> ReadCall:
        """Return what a call touched. Total, but for a receipt that holds what no broker writes."""
        recorded, unknown = self._recorded(seen)
        if seen.arguments is None or self._resolver is None:
            return ReadCall(seen, recorded, "receipt", unknown)
        call = self._resolver.resolve(seen.tool, seen.arguments, server=seen.server)
        places = {place for path in call.paths for place in path.places}
        keys = {url.keys for url in call.urls}
        paths = [p for p in recorded.paths if not places.issuperset(p.places) or not p.places]
        urls = [u for u in recorded.urls if u.keys not in keys]
        if call.fault is None and not call.nested and (paths or urls):
            call = replace(call, paths=(*call.paths, *paths), urls=(*call.urls, *urls))
        hidden = not seen.digest and _HIDDEN in str(seen.arguments)
        return ReadCall(seen, call, self._how, _LEFT_OUT if hidden else "")

    def _recorded(self, seen: SeenCall) -> tuple[Call, str]:
        """Return the call that a receipt tells of, and what it leaves open."""
        entry = self._catalogs.lookup(seen.tool, seen.server)
        paths: list[PathSubject] = []
        urls: list[UrlSubject] = []
        command: str | None = None
        unknown = _NESTED if seen.cost > 1 else ""
        for subject in seen.subjects:
            text = next((v for k in ("path", "url", "command") if (v := subject.get(k))), None)
            if not isinstance(text, str):
                unknown = unknown or _CUT_SHORT
            elif "command" in subject:
                command = text
            elif _HIDDEN in text or (text.endswith(_CUT) and len(text) >= MAX_TEXT_CHARS):
                unknown = unknown or _CUT_SHORT
            elif "path" in subject:
                paths.append(self._path(text, subject))
            else:
                try:
                    urls.append(read_address(_FROM, f"{text}/"))
                except Unreadable:
                    unknown = unknown or _CUT_SHORT
        fault = Fault("arguments", "", seen.reason) if seen.caveat == "call" else None
        return Call(
            seen.tool,
            seen.server,
            tuple(paths),
            tuple(urls),
            entry is None or not entry.vouched or entry.effect == "opaque",
            fault=fault,
            command=command,
            digest=seen.digest,
        ), unknown

    def _path(self, text: str, subject: Mapping[str, object]) -> PathSubject:
        access: Access = "read" if subject.get("access") == "read" else "write"
        below = subject.get("below") is True
        write = access == "write"
        if subject.get("outside") is True:
            own = under_any(text, self._own, above=write or below)
            return PathSubject(_FROM, text, access, (), text, own=own, below=below)
        place = "" if text == "." else f"{text}/"
        resolved = f"{self._workspace}/{text}" if place else self._workspace
        own = under_any(resolved, self._own, above=write or below)
        return PathSubject(
            _FROM,
            text,
            access,
            (place,),
            resolved,
            inner_git=write and in_git(place),
            own=own or (write and in_settings(place, False)),
            below=below,
        )
