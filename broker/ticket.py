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

from broker.caveats import BOUNDS, KINDS, LISTS, Caveat, covers, show
from broker.errors import (
    AttenuationError,
    InputError,
    LimitError,
    TicketFormatError,
    TicketVerificationError,
)
from broker.limits import MAX_CAVEATS, MAX_CHAIN_LINKS
from broker.rules import Rules, narrow_rules, root_rules
from broker.wire import (
    FORMAT,
    link_block,
    mac,
    read_block,
    read_root,
    read_step,
    root_block,
    split,
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
    steps: tuple[tuple[Caveat, ...], ...]
    rules: Rules

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
    def links(self) -> tuple[Link, ...]:
        """Every step of custody, root first."""
        return tuple(Link(i, c) for i, c in zip(self.line, self.steps, strict=True))

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Every caveat, in the order in which they were added."""
        return tuple(c for step in self.steps for c in step)

    @property
    def limits(self) -> tuple[int | None, ...]:
        """The `calls` of each link, root first; None where a link sets none."""
        return self.rules.limits

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
        root = read_block(blocks[0])
        if len(root) != 7 or root[0] != FORMAT or not isinstance(root[1], str):
            raise TicketFormatError(f"not a `{FORMAT}` ticket: its first line is something else")
        return cls(tuple(blocks), tag, root[1])


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
        InputError: a key of the wrong length, a malformed caveat.
        LimitError: more than MAX_CAVEATS caveats.
    """
    step = _checked_step(caveats)
    block = root_block(sid, minted_at, intent, nonce, step)
    tag = mac(_checked_key(key), block)
    return Ticket(sid, minted_at, intent, (block,), (tag,), (step,), root_rules(step))


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
    step = _checked_step(caveats)
    _refuse_widening(ticket.steps, step)
    block = link_block(nonce, step)
    return Ticket(
        ticket.sid,
        ticket.minted_at,
        ticket.intent,
        (*ticket.blocks, block),
        (*ticket.macs, mac(ticket.macs[-1], block)),
        (*ticket.steps, step),
        narrow_rules(ticket.rules, step),
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
    head = read_block(blocks[0])
    sid, minted_at, intent = read_root(head)
    step = read_step(head[6])
    rules = root_rules(step)
    steps = [step]
    for number, block in enumerate(blocks[1:], 1):
        link = read_block(block)
        if len(link) != 2 or type(link[0]) is not str:
            raise TicketFormatError(f"link {number} of the ticket is not a link")
        step = read_step(link[1])
        try:
            _refuse_widening(steps, step)
        except AttenuationError as error:
            raise TicketVerificationError(f"link {number}: {error}") from None
        rules = narrow_rules(rules, step)
        steps.append(step)
    return Ticket(sid, minted_at, intent, tuple(blocks), tuple(macs), tuple(steps), rules)


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
        _refuse_widening(ticket.steps, _checked_step(caveats))
    except AttenuationError as error:
        return error
    return None


def _refuse_widening(steps: Sequence[tuple[Caveat, ...]], added: tuple[Caveat, ...]) -> None:
    for narrow in added:
        bounds = BOUNDS[narrow.kind]
        # The newest link is the narrowest, so a widening is usually seen at once.
        for step in reversed(steps):
            for wide in step:
                if wide.kind in bounds:
                    value = covers(wide, narrow)
                    if value is not None:
                        raise AttenuationError(
                            f"`{show(narrow)}` widens `{show(wide)}`: `{value}` is not within it",
                            kind=narrow.kind,
                        )


def _public_id(tag: bytes) -> str:
    return sha256(_ID_LABEL + tag).hexdigest()[:16]


def _checked_key(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise InputError(f"a ticket key has {KEY_BYTES} bytes, this one has {len(key)}")
    return key


def _checked_step(caveats: Sequence[Caveat]) -> tuple[Caveat, ...]:
    step = tuple(caveats)
    if len(step) > MAX_CAVEATS:
        raise LimitError(f"a link has at most {MAX_CAVEATS} caveats, this one has {len(step)}")
    for caveat in step:
        if caveat.kind not in KINDS:
            raise InputError(f"no such caveat kind: `{caveat.kind}`")
        if isinstance(caveat.value, tuple) != (caveat.kind in LISTS):
            raise InputError(f"the value of `{caveat.kind}` has the wrong type")
    return step
