"""
Tickets: what an intent may do, with its chain of custody.

Decided here: how a ticket is minted, narrowed (``attenuate``), written down and believed again
(``verify_chain``). Not decided here: whether a call passes (``broker.authorize``), who may mint
(``broker.intent``), how often (``broker.guard``).

The wire form is one canonical JSON array per link, each on a line of its own, and the last
MAC in hex on the last line::

    ["ticket/1",SID,SECONDS,NANOSECONDS,INTENT,NONCE,[CAVEAT,…]]
    [NONCE,[CAVEAT,…]]
    <64 hex>

Each link is authenticated under the MAC of the link before it (the first under the session's
ticket key), so whoever holds a ticket can narrow it and nobody can drop or edit a link: the
construction of macaroons (Birgisson et al., NDSS 2014), over HMAC-SHA256 (RFC 2104).

Rules a maintainer keeps: attenuation appends and never unites, drops or rewrites; parsing
gives an ``UnverifiedTicket``, and only ``mint``, ``attenuate`` and ``verify_chain`` make a
``Ticket``; the bytes that were authenticated are the bytes that are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from hmac import compare_digest
from typing import Final

from broker.bounds import Bounds, narrow, root_bounds
from broker.caveats import Caveat, show
from broker.errors import (
    AttenuationError,
    InputError,
    LimitError,
    TicketVerificationError,
)
from broker.limits import MAX_CHAIN_LINKS
from broker.wire import (
    Step,
    link_block,
    mac,
    read_link,
    read_root,
    root_block,
    split,
    take_apart,
)

KEY_BYTES: Final = 32
_ID_LABEL: Final = b"ticket/1 id\x00"
_KEY_LABEL: Final = b"ticket/1 key\x00"


@dataclass(frozen=True, slots=True)
class Link:
    """One step of custody: the caveats that were added there."""

    id: str
    caveats: tuple[Caveat, ...]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ticket:
    """
    A believed ticket: the conjunction of all its caveats, and where each came from.

    Made by ``mint``, ``attenuate`` and ``verify_chain`` only.
    """

    sid: str
    minted_at: int
    intent: str
    blocks: tuple[bytes, ...]
    macs: tuple[bytes, ...]
    bounds: Bounds
    until: int | None
    limits: tuple[int | None, ...]
    least: int | None

    @property
    def id(self) -> str:
        """This ticket's public name, 16 hex digits; it reveals nothing of the MAC."""
        return _public_id(self.macs[-1])

    @property
    def line(self) -> tuple[str, ...]:
        """The ids from the root to this ticket."""
        return tuple(_public_id(m) for m in self.macs)

    @property
    def root_id(self) -> str:
        """The id of the ticket that a person's typed line minted."""
        return _public_id(self.macs[0])

    @property
    def steps(self) -> tuple[tuple[Caveat, ...], ...]:
        """The caveats of each link, root first, read again from the bytes they were signed as."""
        first, *later = self.blocks
        return (read_root(first)[3].caveats, *[read_link(b).caveats for b in later])

    @property
    def links(self) -> tuple[Link, ...]:
        """Every step of custody, root first."""
        return tuple(Link(i, c) for i, c in zip(self.line, self.steps, strict=True))

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Every caveat, in the order in which they were added."""
        return tuple(c for step in self.steps for c in step)

    def wire(self) -> str:
        """
        Return the wire form. Whoever holds it can use and narrow the ticket: it is a secret.
        """
        return b"\n".join((*self.blocks, self.macs[-1].hex().encode())).decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ticket):
            return NotImplemented
        return self.blocks == other.blocks and compare_digest(self.macs[-1], other.macs[-1])

    def __hash__(self) -> int:
        return hash(self.macs)

    def __repr__(self) -> str:
        shown = " ".join(show(c) for c in self.caveats)
        return f"<Ticket {self.id} {shown or 'unrestricted'}>"


@dataclass(frozen=True, slots=True)
class UnverifiedTicket:
    """
    A ticket's wire form, taken apart and not yet believed: it authorizes nothing.

    ``sid`` is what the text claims; it serves to find the key, and the MAC then decides.
    """

    blocks: tuple[bytes, ...]
    tag: bytes
    sid: str

    @classmethod
    def parse(cls, wire: str | bytes) -> UnverifiedTicket:
        """
        Take a wire form apart.

        Raises:
            TicketFormatError: not a ticket's wire form.
        """
        blocks, tag = split(wire)
        return cls(tuple(blocks), tag, read_root(blocks[0])[0])


def session_key(key: bytes, sid: str) -> bytes:
    """Return the ticket key of one session, derived from the installation's key."""
    return mac(_checked_key(key), _KEY_LABEL + sid.encode())


def mint(
    caveats: Sequence[Caveat],
    *,
    key: bytes,
    sid: str,
    minted_at: int,
    intent: str = "",
    nonce: str = "",
) -> Ticket:
    """
    Mint the root ticket of a session from the caveats that a person typed.

    ``key`` is the session's ticket key (32 bytes, see ``session_key``); ``minted_at`` is in
    nanoseconds since the Unix epoch; ``intent`` is the hex SHA-256 of the typed line, or
    empty. Several caveats of one kind all hold.

    >>> from broker.caveats import paths, tools
    >>> t = mint([tools("read"), paths("src/**")], key=bytes(32), sid="s", minted_at=0)
    >>> t.caveats[1].value
    ('src/**',)

    Raises:
        InputError: a key of the wrong length, a malformed caveat, a rule with `in intent` and no
            ``intent``.
        LimitError: more than MAX_CAVEATS caveats.
    """
    step = take_apart(tuple(caveats))
    bounds = root_bounds(step.lists)
    _refuse_no_line(bounds, intent)
    block = root_block(sid, minted_at, intent, nonce, step.caveats)
    tag = mac(_checked_key(key), block)
    limits = (step.calls,)
    return Ticket(sid, minted_at, intent, (block,), (tag,), bounds, step.until, limits, step.calls)


def attenuate(ticket: Ticket, *caveats: Caveat, nonce: str = "") -> Ticket:
    """
    Derive a narrower ticket by appending ``caveats``.

    ``nonce`` tells siblings with equal caveats apart, so that each has a count of its own.

    >>> from broker.caveats import tools
    >>> t = mint([tools("read", "grep")], key=bytes(32), sid="s", minted_at=0)
    >>> attenuate(t, tools("read")).caveats[-1]
    Caveat(kind='tools', value=('read',))
    >>> attenuate(t, tools("read", "shell"))
    Traceback (most recent call last):
    broker.errors.AttenuationError: `tools=read,shell` widens `tools=read,grep`: `shell` ...

    Raises:
        AttenuationError: a caveat would permit more than the ticket does; ``kind`` names it.
        LimitError: the chain is at MAX_CHAIN_LINKS.
    """
    if len(ticket.blocks) >= MAX_CHAIN_LINKS:
        raise LimitError(f"a ticket has at most {MAX_CHAIN_LINKS} links")
    step = take_apart(caveats)
    bounds, until, least = _narrowed(ticket.bounds, ticket.until, ticket.least, step)
    _refuse_no_line(bounds, ticket.intent)
    block = link_block(nonce, caveats)
    return Ticket(
        ticket.sid,
        ticket.minted_at,
        ticket.intent,
        (*ticket.blocks, block),
        (*ticket.macs, mac(ticket.macs[-1], block)),
        bounds,
        until,
        (*ticket.limits, step.calls),
        least,
    )


def verify_chain(wire: str | bytes | UnverifiedTicket, key: bytes) -> Ticket:
    """
    Return the ticket that ``wire`` holds, believed, or raise.

    Every link is authenticated before a byte of it is read, and each must permit no more than
    the links before it, by meaning: a chain whose MACs are right and that widens still fails.

    Args:
        wire: what ``Ticket.wire`` gave, in this process or another.
        key: the session's ticket key, 32 bytes.

    Raises:
        TicketFormatError: not a ticket's wire form.
        TicketVerificationError: a MAC is wrong, or a link widens.
    """
    if isinstance(wire, UnverifiedTicket):
        blocks, tag = list(wire.blocks), wire.tag
    else:
        blocks, tag = split(wire)
    link_key = _checked_key(key)
    macs = []
    for block in blocks:
        link_key = mac(link_key, block)
        macs.append(link_key)
    if not compare_digest(link_key.hex().encode(), tag):
        raise TicketVerificationError("the ticket was not made with this key, or was changed")
    sid, minted_at, intent, step = read_root(blocks[0])
    bounds, until, least = root_bounds(step.lists), step.until, step.calls
    limits = [least]
    for number, block in enumerate(blocks[1:], 1):
        step = read_link(block)
        try:
            bounds, until, least = _narrowed(bounds, until, least, step)
        except AttenuationError as error:
            raise TicketVerificationError(f"link {number}: {error}") from None
        limits.append(step.calls)
    return Ticket(
        sid, minted_at, intent, tuple(blocks), tuple(macs), bounds, until, tuple(limits), least
    )


def describe(ticket: Ticket) -> tuple[str, ...]:
    """
    Return the ticket in lines for a person: each link, and what it adds.

    >>> from broker.caveats import calls
    >>> t = mint([calls(2)], key=bytes(32), sid="s", minted_at=0)
    >>> describe(t)[1]
    '  calls=2'
    """
    lines = []
    for depth, link in enumerate(ticket.links):
        what = "ticket" if depth == 0 else "narrowed to"
        lines.append("  " * depth + f"{what} {link.id}")
        added = [show(c) for c in link.caveats] or ["no caveat: everything is permitted here"]
        lines += ["  " * (depth + 1) + text for text in added]
    return tuple(lines)


def widening(ticket: Ticket, *caveats: Caveat) -> AttenuationError | None:
    """Return the error that ``attenuate`` would raise for ``caveats``, or None."""
    try:
        _narrowed(ticket.bounds, ticket.until, ticket.least, take_apart(caveats))
    except AttenuationError as error:
        return error
    return None


def _narrowed(
    bounds: Bounds, until: int | None, least: int | None, step: Step
) -> tuple[Bounds, int | None, int | None]:
    """Return what a chain comes to when ``step`` is added, or raise: the one proof of both."""
    if step.until is not None:
        if until is not None and step.until > until:
            raise _later("until", step.until, until)
        until = step.until
    if step.calls is not None:
        if least is not None and step.calls > least:
            raise _later("calls", step.calls, least)
        least = step.calls
    return (narrow(bounds, step.lists) if step.lists else bounds), until, least


def _refuse_no_line(bounds: Bounds, intent: str) -> None:
    if bounds.reads_line and not intent:
        raise InputError("`in intent` needs the line that the person typed: open an intent with it")


def _later(kind: str, asked: int, held: int) -> AttenuationError:
    wider, narrower = show(Caveat(kind, asked)), show(Caveat(kind, held))
    return AttenuationError(f"`{wider}` widens `{narrower}`", kind=kind)


def _public_id(tag: bytes) -> str:
    return sha256(_ID_LABEL + tag).hexdigest()[:16]


def _checked_key(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise InputError(f"a ticket key has {KEY_BYTES} bytes, this one has {len(key)}")
    return key
