"""
A ticket's bytes: the arrays of its links, and the MAC that chains them.

Decided here: how a link is written and read, and nothing about what it means. Reading is
strict: one JSON array per line, exact types, canonical patterns; everything else is a
``TicketFormatError``. The caller authenticates bytes before it reads them.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from json import JSONDecoder, JSONEncoder
from typing import Final

from broker.caveats import LISTS, Caveat
from broker.errors import InputError, TicketFormatError
from broker.globs import check_path, check_tool
from broker.hosts import check_host
from broker.limits import (
    MAX_CALLS,
    MAX_CAVEATS,
    MAX_CHAIN_LINKS,
    MAX_SCOPE_ITEMS,
    MAX_TICKET_BYTES,
)

FORMAT: Final = "ticket/1"
encode = JSONEncoder(
    separators=(",", ":"), ensure_ascii=False, allow_nan=False, check_circular=False
).encode
_decode = JSONDecoder().raw_decode

# HMAC-SHA256 with a key of exactly 32 bytes, as its definition reads: two plain hashes over
# padded keys. It gives what hmac.digest gives (tests compare them, and RFC 4231) at a bit
# over half the time, since no MAC object is fetched from OpenSSL for each link.
_OUTER: Final = bytes(x ^ 0x5C for x in range(256))
_INNER: Final = bytes(x ^ 0x36 for x in range(256))
_OUTER_TAIL: Final = b"\x5c" * 32
_INNER_TAIL: Final = b"\x36" * 32


def mac(key: bytes, body: bytes) -> bytes:
    """Return HMAC-SHA256 of ``body`` under a key of exactly 32 bytes (RFC 2104)."""
    inner = sha256(key.translate(_INNER) + _INNER_TAIL + body).digest()
    return sha256(key.translate(_OUTER) + _OUTER_TAIL + inner).digest()


def root_block(
    sid: str, minted_at: int, intent: str, nonce: str, step: tuple[Caveat, ...]
) -> bytes:
    """Return the bytes of a root link."""
    seconds, rest = divmod(minted_at, 10**9)
    head = (FORMAT, sid, seconds, rest, intent, nonce)
    return encode((*head, [_plain(c) for c in step])).encode("utf-8")


def link_block(nonce: str, step: tuple[Caveat, ...]) -> bytes:
    """Return the bytes of a link that narrows."""
    return encode((nonce, [_plain(c) for c in step])).encode("utf-8")


def _plain(caveat: Caveat) -> tuple[object, ...]:
    if caveat.kind == "until" and isinstance(caveat.value, int):
        # RFC 8785 numbers are exact up to 2^53 only; nanoseconds since 1970 are larger.
        return ("until", *divmod(caveat.value, 10**9))
    if isinstance(caveat.value, int):
        return (caveat.kind, caveat.value)
    return (caveat.kind, *caveat.value)


def split(wire: str | bytes) -> tuple[list[bytes], bytes]:
    """Return a ticket's lines, the root's first, and the MAC of the last; nothing is believed."""
    try:
        raw = wire.encode("utf-8") if isinstance(wire, str) else wire
    except UnicodeEncodeError:
        raise TicketFormatError("a ticket holds no half characters") from None
    if len(raw) > MAX_TICKET_BYTES:
        raise TicketFormatError(f"a ticket has at most {MAX_TICKET_BYTES} bytes")
    blocks = raw.removesuffix(b"\n").split(b"\n")
    tag = blocks.pop()
    if not blocks or len(tag) != 64:
        raise TicketFormatError("not a ticket: its last line is not a MAC of 64 hex digits")
    if len(blocks) > MAX_CHAIN_LINKS:
        raise TicketFormatError(f"a ticket has at most {MAX_CHAIN_LINKS} links")
    return blocks, tag


def read_block(block: bytes) -> list[object]:
    """Return the one JSON array that a line of a ticket is."""
    try:
        text = block.decode("utf-8")
        value, end = _decode(text)
    except (ValueError, RecursionError):
        raise TicketFormatError("a line of the ticket is not JSON") from None
    if end != len(text) or type(value) is not list:
        raise TicketFormatError("a line of the ticket is not one JSON array")
    return value


def read_root(head: list[object]) -> tuple[str, int, str]:
    """Return the session, the instant of minting and the intent that a first line names."""
    if len(head) != 7 or head[0] != FORMAT:
        raise TicketFormatError(f"not a `{FORMAT}` ticket: its first line is something else")
    _, sid, seconds, rest, intent, nonce, _ = head
    if type(sid) is not str or type(intent) is not str or type(nonce) is not str:
        raise TicketFormatError("a name in the ticket is not text")
    return sid, _instant(seconds, rest), intent


def _instant(seconds: object, rest: object) -> int:
    if type(seconds) is not int or type(rest) is not int or not 0 <= rest < 10**9:
        raise TicketFormatError("an instant in the ticket is not seconds and nanoseconds")
    return seconds * 10**9 + rest


def read_step(value: object) -> tuple[Caveat, ...]:
    """Return the caveats of one link, each checked as if a person had just typed it."""
    if type(value) is not list or len(value) > MAX_CAVEATS:
        raise TicketFormatError(f"a link is not a list of at most {MAX_CAVEATS} caveats")
    return tuple([_read_caveat(item) for item in value])


def _read_caveat(item: object) -> Caveat:
    if type(item) is not list or not item or type(item[0]) is not str:
        raise TicketFormatError("a caveat of the ticket is not a list that begins with its kind")
    kind, *values = item
    if kind == "until" and len(values) == 2:
        return Caveat(kind, _instant(*values))
    if kind == "calls" and len(values) == 1:
        number = values[0]
        if type(number) is int and 0 <= number <= MAX_CALLS:
            return Caveat(kind, number)
    if kind in LISTS:
        return Caveat(kind, _read_patterns(kind, values))
    raise TicketFormatError(f"the ticket holds a caveat that is not understood: `{kind}`")


def _read_patterns(kind: str, values: list[object]) -> tuple[str, ...]:
    if len(values) > MAX_SCOPE_ITEMS:
        raise TicketFormatError(f"a list of the ticket has more than {MAX_SCOPE_ITEMS} items")
    try:
        return _checked_patterns(kind, tuple(values))
    except TypeError:
        raise TicketFormatError(f"a pattern of `{kind}` is not text") from None


# Checking is a pure function of the text, and the same lists come again and again: a chain
# mostly restates what its root said.
@lru_cache(maxsize=4_096)
def _checked_patterns(kind: str, patterns: tuple[object, ...]) -> tuple[str, ...]:
    check = _CHECKS[kind]
    texts = []
    for pattern in patterns:
        if type(pattern) is not str:
            raise TicketFormatError(f"a pattern of `{kind}` is not text")
        try:
            canonical = check(pattern)
        except InputError as error:
            raise TicketFormatError(f"`{kind}` of the ticket: {error}") from None
        if canonical != pattern:
            raise TicketFormatError(f"a pattern of `{kind}` is not in canonical form: `{pattern}`")
        texts.append(pattern)
    return tuple(texts)


_CHECKS: Final = {
    "tools": check_tool,
    "paths": check_path,
    "reads": check_path,
    "writes": check_path,
    "hosts": check_host,
}
