"""
A ticket's bytes: the arrays of its links, and the MAC that chains them.

Decided here: how a link is written and read, and nothing about what it means. Reading is
strict: one JSON array per line, exact types, canonical patterns and rules; everything else is a
``TicketFormatError``, so a reader that knows no rules refuses a ticket that holds one (an item
of `tools` that is no text). The caller authenticates bytes before it reads them.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from json import JSONDecoder
from json.encoder import encode_basestring as _quoted
from typing import TYPE_CHECKING, Final, NamedTuple

from broker.caveats import LISTS, Caveat
from broker.errors import InputError, LimitError, TicketFormatError
from broker.globs import check_path, check_tool
from broker.hosts import check_host
from broker.limits import (
    MAX_CALLS,
    MAX_CAVEATS,
    MAX_CHAIN_LINKS,
    MAX_SCOPE_ITEMS,
    MAX_TICKET_BYTES,
)

if TYPE_CHECKING:
    from broker.rules import Rule

FORMAT: Final = "ticket/1"
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


class Step(NamedTuple):
    """
    The caveats of one link, in their order, and taken apart by what they are.

    ``lists`` are those with patterns; ``until`` and ``calls`` the smallest number, or None.
    """

    caveats: tuple[Caveat, ...]
    lists: tuple[Caveat, ...]
    until: int | None
    calls: int | None


def take_apart(caveats: tuple[Caveat, ...]) -> Step:
    """
    Return the step that ``caveats`` make.

    Raises:
        InputError: a kind that does not exist, a value of the wrong type.
        LimitError: more than MAX_CAVEATS caveats.
    """
    if len(caveats) > MAX_CAVEATS:
        raise LimitError(f"a link has at most {MAX_CAVEATS} caveats, this one has {len(caveats)}")
    until = calls = None
    lists = []
    for caveat in caveats:
        kind, value = caveat
        if isinstance(value, tuple):
            if kind not in LISTS:
                raise InputError(f"no such caveat kind: `{kind}`")
            lists.append(caveat)
        elif type(value) is not int:
            raise InputError(f"the value of `{kind}` has the wrong type")
        elif kind == "until":
            until = value if until is None or value < until else until
        elif kind == "calls":
            calls = value if calls is None or value < calls else calls
        else:
            raise InputError(f"no such caveat kind: `{kind}`")
    return Step(caveats, tuple(lists), until, calls)


def root_block(
    sid: str, minted_at: int, intent: str, nonce: str, caveats: tuple[Caveat, ...]
) -> bytes:
    """Return the bytes of a root link."""
    seconds, rest = divmod(minted_at, 10**9)
    names = f"{_quoted(FORMAT)},{_quoted(sid)},{seconds},{rest},{_quoted(intent)},{_quoted(nonce)}"
    return f"[{names},[{','.join(map(_text, caveats))}]]".encode()


def link_block(nonce: str, caveats: tuple[Caveat, ...]) -> bytes:
    """Return the bytes of a later link."""
    return f"[{_quoted(nonce)},[{','.join(map(_text, caveats))}]]".encode()


def _text(caveat: Caveat) -> str:
    kind, value = caveat
    if kind == "until" and isinstance(value, int):
        # RFC 8785 numbers are exact up to 2^53 only; nanoseconds since 1970 are larger.
        seconds, rest = divmod(value, 10**9)
        return f'["until",{seconds},{rest}]'
    return _list_text(caveat)


@lru_cache(maxsize=4_096)
def _list_text(caveat: Caveat) -> str:
    kind, value = caveat
    items = (str(value),) if isinstance(value, int) else tuple(map(_item_text, value))
    return "[" + ",".join((_quoted(kind), *items)) + "]"


def _item_text(item: str | Rule) -> str:
    if isinstance(item, str):
        return _quoted(item)
    from broker.language.rulewire import write_rule  # noqa: PLC0415 - most tickets hold none

    return write_rule(item)


def split(wire: str | bytes) -> tuple[list[bytes], bytes]:
    """
    Return the links' bytes and the MAC's hex digits, none of them believed.

    Raises:
        TicketFormatError: not the shape of a ticket.
    """
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


# Reading is a pure function of the bytes, and a ticket is verified again and again: the caches
# hold what was read of bytes that carried a right MAC.
@lru_cache(maxsize=1_024)
def read_root(block: bytes) -> tuple[str, int, str, Step]:
    """
    Return the session id, the instant of minting, the intent's digest and the caveats.

    Raises:
        TicketFormatError: not a root link.
    """
    head = _read_array(block)
    if len(head) != 7 or head[0] != FORMAT:
        raise TicketFormatError(f"not a `{FORMAT}` ticket: its first line is something else")
    _, sid, seconds, rest, intent, nonce, step = head
    if type(sid) is not str or type(intent) is not str or type(nonce) is not str:
        raise TicketFormatError("a name in the ticket is not text")
    return sid, _instant(seconds, rest), intent, _read_step(step)


@lru_cache(maxsize=4_096)
def read_link(block: bytes) -> Step:
    """
    Return the caveats of a later link.

    Raises:
        TicketFormatError: not a link.
    """
    link = _read_array(block)
    if len(link) != 2 or type(link[0]) is not str:
        raise TicketFormatError("a line of the ticket is not a link")
    return _read_step(link[1])


def _read_array(block: bytes) -> list[object]:
    try:
        text = block.decode("utf-8")
        value, end = _decode(text)
    except (ValueError, RecursionError):
        raise TicketFormatError("a line of the ticket is not JSON") from None
    if end != len(text) or type(value) is not list:
        raise TicketFormatError("a line of the ticket is not one JSON array")
    return value


def _instant(seconds: object, rest: object) -> int:
    if type(seconds) is not int or type(rest) is not int or not 0 <= rest < 10**9:
        raise TicketFormatError("an instant in the ticket is not seconds and nanoseconds")
    return seconds * 10**9 + rest


def _read_step(value: object) -> Step:
    if type(value) is not list or len(value) > MAX_CAVEATS:
        raise TicketFormatError(f"a link is not a list of at most {MAX_CAVEATS} caveats")
    return take_apart(tuple([_read_caveat(item) for item in value]))


def _read_caveat(item: object) -> Caveat:
    if type(item) is not list or not item or type(item[0]) is not str:
        raise TicketFormatError("a caveat of the ticket is not a list that begins with its kind")
    kind = item[0]
    if kind in LISTS:
        return _listed(kind, item)
    if kind == "until" and len(item) == 3:
        return Caveat(kind, _instant(item[1], item[2]))
    if kind == "calls" and len(item) == 2:
        number = item[1]
        if type(number) is int and 0 <= number <= MAX_CALLS:
            return Caveat(kind, number)
    raise TicketFormatError(f"the ticket holds a caveat that is not understood: `{kind}`")


def _listed(kind: str, item: list[object]) -> Caveat:
    if len(item) > MAX_SCOPE_ITEMS + 1:
        raise TicketFormatError(f"a list of the ticket has more than {MAX_SCOPE_ITEMS} items")
    check = _CHECKS[kind]
    texts: list[str | Rule] = []
    for pattern in item[1:]:
        if kind == "tools" and type(pattern) is list:
            from broker.language.rulewire import read_rule  # noqa: PLC0415 - as above

            texts.append(read_rule(pattern))
            continue
        if type(pattern) is not str:
            raise TicketFormatError(f"a pattern of `{kind}` is not text")
        try:
            canonical = check(pattern)
        except InputError as error:
            raise TicketFormatError(f"`{kind}` of the ticket: {error}") from None
        if canonical != pattern:
            raise TicketFormatError(f"a pattern of `{kind}` is not in canonical form: `{pattern}`")
        texts.append(pattern)
    return Caveat(kind, tuple(texts))


_CHECKS: Final = {
    "tools": check_tool,
    "paths": check_path,
    "reads": check_path,
    "writes": check_path,
    "hosts": check_host,
}
