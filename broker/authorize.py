"""
The decision: does this ticket let this call through at this instant?

``authorize`` is total, pure and deterministic: it reads no clock, file, environment or random
source, it returns a ``Decision`` for every well-typed call, and it raises for none. It only
ever vetoes; an allow means "no objection", never "yes on the agent's behalf".

The order in which a refusal is looked for is fixed, and the first one is named: a call too large
to compare, the broker's own files, the tool and what its rule asks of the arguments, the deadline,
what cannot be read, what cannot be seen, paths, hosts, calls inside the call, and last the count of
calls.

Rules a maintainer keeps: nothing that fails to match is let through; nothing that could not be
read is let through; a new caveat kind is refused until it is decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from broker.calls import (
    ALLOW,
    ALLOW_SANDBOXED,
    ALLOW_UNSEEN,
    Call,
    Decision,
    PathSubject,
    Refusal,
    TypedText,
    UrlSubject,
)
from broker.errors import Refused
from broker.language.nearness import Nearness, near_hosts, near_names, near_paths, nearest_first
from broker.language.toolnames import full_name
from broker.limits import MATCH_SETUP_CHARS, MAX_MATCH_WORK

if TYPE_CHECKING:
    # Whoever decides holds a ticket already: its module need not be loaded once more for a name.
    from broker.bounds import Bounds, PathBound, ToolBound
    from broker.ticket import Ticket

ASK: Final = "do not work around this; ask the person to widen the scope if it is needed"
_SHOWN: Final = 6
_FEW_STARS: Final = 2  # no call is so large that these take long
_SHOWN_RULES: Final = 3
_LINE_WORK: Final = 8  # how often a line is gone through for one value, with each of its spellings

Spent = int | tuple[int, ...] | None


def authorize(
    ticket: Ticket,
    call: Call,
    at: int | None,
    spent: Spent = 0,
    *,
    sandboxed: bool = False,
    line: TypedText | None = None,
) -> Decision:
    """
    Decide one call under one ticket.

    Args:
        ticket: believed, from ``mint``, ``attenuate`` or ``verify_chain``.
        call: what ``broker.resolve`` made of the tool and its arguments.
        at: the instant, nanoseconds since the Unix epoch; None when no clock can be read,
            which refuses under `until`.
        spent: calls already allowed. One number counts for every link of the chain; a tuple
            has one number per link, root first. None when the count cannot be read, which
            refuses under `calls`.
        sandboxed: a sandbox holds this same ticket for what the tool starts.
        line: what the person typed, for conditions that look at it. Without it, or when it is
            another line than the ticket carries the digest of, those refuse.

    Returns:
        A ``Decision``; ``refusal`` names the caveat that refused.

    >>> from broker.calls import Call
    >>> from broker.caveats import tools
    >>> from broker.ticket import mint
    >>> t = mint([tools("read")], key=bytes(32), sid="s", minted_at=0)
    >>> authorize(t, Call("read"), 0).allowed
    True
    >>> authorize(t, Call("shell"), 0).refusal.caveat
    'tools'
    """
    bounds, shape = ticket.bounds, call.shape
    # Most calls touch one thing and are allowed, by an exact name and a prefix. What this does
    # not see at once is decided in full below; it never refuses.
    if (
        shape != "other"
        and (bounds.quick_tools is None or call.tool in bounds.quick_tools)
        and (ticket.until is None or (at is not None and at < ticket.until))
        and (ticket.least is None or (type(spent) is int and -1 < spent < ticket.least))
    ):
        if shape == "read":
            if call.spot.startswith(bounds.quick_reads):
                return ALLOW
        elif shape == "write":
            if call.spot.startswith(bounds.quick_writes):
                return ALLOW
        elif (
            shape == "nothing"
            or call.spot in bounds.quick_hosts
            or call.spot.endswith(bounds.quick_suffixes)
        ):
            return ALLOW
    if shape == "other" and bounds.stars > _FEW_STARS:
        if bounds.stars * call.extent() > MAX_MATCH_WORK:
            return _too_much(call, f"{bounds.stars} patterns with wildcards")
    text = line.text if line is not None and line.digest == ticket.intent else None
    if call.nested and bounds.rules and _is_long(bounds, call, text):
        return _too_much(call, f"{bounds.rules} rules")
    decision = _judge(ticket, call, at, sandboxed, text)
    if ticket.least is not None and decision.refusal is None:
        refusal = _count(ticket.limits, call.cost(), spent)
        if refusal is not None:
            return Decision(refusal)
    return decision


def enforce(decision: Decision) -> Decision:
    """
    Return the decision if it allows.

    Raises:
        Refused: it refuses; ``detail["decision"]`` is the decision.
    """
    if decision.refusal is not None:
        raise Refused(decision.refusal.reason, decision=decision)
    return decision


def _judge(
    ticket: Ticket, call: Call, at: int | None, sandboxed: bool, line: str | None
) -> Decision:
    bounds, tool = ticket.bounds, call.tool
    # What a pattern spells out is the whole name: a server's `shell` is not the agent's own.
    name = tool if call.server is None else full_name(tool, call.server)
    for subject in call.paths:
        if subject.own:
            return _own(subject)
    for bound in bounds.tools:
        if name not in bound.match.exact and not bound.match.match(tool, call.server):
            refused = _by_rules(bounds, bound, call, name, line)
            if refused is not None:
                return refused
    if ticket.until is not None and (at is None or at >= ticket.until):
        return _late(ticket.until, at)
    if call.fault is not None:
        return _unreadable(bounds, call)
    decision = ALLOW
    if bounds.seen:
        if call.opaque:
            if not _is_named(bounds, call, name, line):
                return _unseen(name, name in bounds.named)
            decision = ALLOW_SANDBOXED if sandboxed else ALLOW_UNSEEN
        if call.missing:
            return _absent(bounds, call)
        for subject in call.paths:
            held = bounds.reads if subject.access == "read" else bounds.writes
            if call.opaque and subject.access != "read":
                held = (*held, *bounds.reads)  # whoever may write it may read it just as well
            for path_bound in held:
                match = path_bound.match
                if subject.below or subject.inner_git or subject.folded or not subject.places:
                    if not _fits(path_bound, subject):
                        return _outside(path_bound, subject)
                    continue
                for place in subject.places:
                    if not place.startswith(match.prefixes) and not match.match(place):
                        return _outside(path_bound, subject)
        if bounds.no_network and call.urls and not _is_named(bounds, call, name, line):
            return _no_network(call.urls[0])
        for url in call.urls:
            for host_bound in bounds.hosts:
                if not host_bound.match.match(url.keys):
                    return _wrong_host(url, host_bound.patterns)
    for inner in call.nested:
        inside = _judge(ticket, inner, at, sandboxed, line)
        if inside.refusal is not None:
            return inside
        if inside.enforcement == "none" or decision.enforcement == "gate":
            decision = inside  # what holds a call is what holds the least of it
    return decision


def _by_rules(
    bounds: Bounds, bound: ToolBound, call: Call, name: str, line: str | None
) -> Decision | None:
    """Refuse a call that no rule of the list admits."""
    book = bound.book
    found = [] if book is None else book.of(name, call.tool, call.server)
    if book is None or not found:
        return _not_listed(name, [str(p) for p in bound.patterns])
    if call.fault is not None:
        return None  # it is refused below, and the fault is named
    if _is_long(bounds, call, line):
        return _too_much(call, f"{bounds.rules} rules")
    unmet = book.judge(found, call, line)
    if unmet is None:
        return None
    where = f"argument `{unmet.label}` of `{name}`" if unmet.label else f"`{name}`"
    allowed = "; ".join([str(ready.rule) for ready in found[:_SHOWN_RULES]])
    more = len(found) - _SHOWN_RULES
    allowed += f"; and {more} more" if more > 0 else ""
    return _refuse("tools", unmet.label or name, f"{where}: {unmet.reason}; tools: {allowed}")


def _is_named(bounds: Bounds, call: Call, name: str, line: str | None) -> bool:
    """Whether the root names a tool outright, or by a rule that admits this very call."""
    if name not in bounds.named:
        return False
    book = bounds.named_if
    found = [] if book is None else book.of(name, call.tool, call.server)
    if book is None or not found:
        return True
    return not _is_long(bounds, call, line) and book.judge(found, call, line) is None


def _is_long(bounds: Bounds, call: Call, line: str | None) -> bool:
    """Whether holding every value of a call against every rule of the chain takes too long."""
    reading = len(line) * _LINE_WORK if line is not None and bounds.reads_line else 0
    return bounds.rules * call.values() * (MATCH_SETUP_CHARS + reading) > MAX_MATCH_WORK


def _fits(bound: PathBound, subject: PathSubject) -> bool:
    """Whether a subject fits that needs more than its places compared."""
    from broker.globs import path_matcher  # noqa: PLC0415 - rarely needed here

    match = path_matcher(bound.patterns, subject.folded)
    if subject.inner_git:
        # A write inside .git runs code later with the person's full rights, so only a pattern
        # that names .git reaches it.
        if match.git is None:
            return False
        match = match.git
    admits = match.covers if subject.below else match.match
    return bool(subject.places) and all(map(admits, subject.places))


def _count(limits: Sequence[int | None], cost: int, spent: Spent) -> Refusal | None:
    counts = spent if isinstance(spent, tuple) else (spent,) * len(limits)
    if len(counts) != len(limits):
        return _uncounted()
    for limit, used in zip(limits, counts, strict=True):
        if type(used) is not int or used < 0:
            return _uncounted()
        if limit is not None and used + cost > limit:
            inside = f" and this one holds {cost}" if cost > 1 else ""
            reason = f"the budget of {limit} calls is used up ({used} made{inside}); {ASK}"
            return Refusal("calls", str(used), reason)
    return None


# ── refusals in words ──


def _uncounted() -> Refusal:
    return Refusal("calls", "?", f"how many calls were made could not be told; {ASK}")


def _refuse(caveat: str, value: str, reason: str) -> Decision:
    return Decision(Refusal(caveat, value, f"{reason}; {ASK}"))


def _too_much(call: Call, what: str) -> Decision:
    return _refuse(
        "call",
        call.tool,
        f"this call names too much to compare it with {what}: split it into several calls",
    )


def _own(subject: PathSubject) -> Decision:
    verb = "read" if subject.access == "read" else "change"
    too = f", which this would {verb} too," if subject.below else ""
    return _refuse("own", subject.spelled, f"the broker's own files{too} are closed to tools")


def _list(patterns: Sequence[str], value: str, near: Nearness) -> str:
    """Return a list's first patterns, before all those that come nearest to what was refused."""
    patterns = nearest_first(value, patterns, near)
    shown = ", ".join(patterns[:_SHOWN]) or "none"
    more = len(patterns) - _SHOWN
    return shown + (f" and {more} more" if more > 0 else "")


def _not_listed(value: str, patterns: Sequence[str]) -> Decision:
    listed = _list(patterns, value, near_names)
    return _refuse("tools", value, f"tool `{value}` is not in tools: {listed}")


def _late(until: int, at: int | None) -> Decision:
    if at is None:
        return _refuse("until", "?", "the time cannot be read, so the deadline cannot be checked")
    late_s = (at - until) // 10**9
    return _refuse("until", str(until), f"the ticket ended {late_s} s ago")


def _unreadable(bounds: Bounds, call: Call) -> Decision:
    fault = call.fault
    assert fault is not None  # noqa: S101 - the caller has looked
    caveat = {"tool": "tools", "path": "paths", "url": "hosts"}.get(fault.kind, "call")
    present = {
        "tools": bool(bounds.tools),
        "paths": bool(bounds.reads or bounds.writes),
        "hosts": bool(bounds.hosts),
    }
    where = f" in argument `{fault.argument}`" if fault.argument else ""
    named = caveat if present.get(caveat, False) else "call"
    return _refuse(named, fault.argument, f"{fault.reason}{where}")


def _unseen(tool: str, named: bool) -> Decision:
    names = f"and names `{tool}` in tools for other arguments alone"
    how = names if named else f"without naming `{tool}` in tools"
    return _refuse(
        "tools",
        tool,
        f"what `{tool}` touches cannot be told from its arguments, and the scope limits paths or "
        f"hosts {how}",
    )


def _absent(bounds: Bounds, call: Call) -> Decision:
    names = ", ".join(call.missing)
    caveat = "hosts" if bounds.hosts and not bounds.reads and not bounds.writes else "paths"
    return _refuse(caveat, names, f"argument `{names}` of `{call.tool}` is missing")


def _outside(bound: PathBound, subject: PathSubject) -> Decision:
    reads = subject.access == "read" or bound.kind == "reads"
    verb = "reading" if reads else "changing" if subject.below else "writing"
    spelled = subject.spelled
    leads = ""
    if not subject.places:
        leads = f" ({subject.why})" if subject.why else ", which lies outside the workspace,"
    elif subject.inner_git:
        leads = ", which lies inside .git and is written only where .git is named,"
    elif (place := subject.places[-1].rstrip("/") or ".") != spelled:
        leads = f" (that is `{place}`)"
    if subject.below and subject.places:
        leads += " with everything below it"
    return _refuse(
        bound.kind,
        spelled,
        f"{verb} `{spelled}`{leads} is not within {bound.kind}: "
        f"{_list(bound.patterns, subject.places[-1] if subject.places else spelled, near_paths)}",
    )


def _no_network(url: UrlSubject) -> Decision:
    return _refuse(
        "hosts",
        url.host or url.spelled,
        f"the scope limits paths and names no hosts, so nothing is fetched from `{url.host}`",
    )


def _wrong_host(url: UrlSubject, patterns: Sequence[str]) -> Decision:
    if not url.keys:
        return _refuse(
            "hosts",
            url.spelled,
            f"`{url.scheme}:` is not an address of the web; hosts: "
            f"{_list(patterns, url.host, near_hosts)}",
        )
    value = url.keys[0]
    listed = _list(patterns, value, near_hosts)
    return _refuse("hosts", value, f"host `{value}` is not in hosts: {listed}")
