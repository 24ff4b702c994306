"""
Salted commitments: a value kept out of a signed line that can be shown, or erased, later.

Decided here: what stands in a line instead of a value, and when a value that somebody shows is
the one that was committed to. Not decided here: which values are committed to, and where the
disclosures are kept (``broker.sessions.conceal``).

The form is that of SD-JWT (RFC 9901): a disclosure is ``[salt, name, value]`` as JSON in
base64url, and its digest, the base64url of its SHA-256, stands in the line's ``_sd``. The name
lies inside the disclosure and the digest inside the line, so a value shown for one field or
line does not pass for another.

Rules a maintainer keeps: every commitment has a salt of its own of 128 bits, so equal values
have different digests and none can be guessed; digests are sorted, so their order tells nothing;
a name that the line shows in clear is never shown a second time.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from hashlib import sha256
from typing import Final, NamedTuple

from broker.errors import Break
from broker.receipt.entry import canonical, strict_object

COMMITTED: Final = "_sd"
SALT_BYTES: Final = 16
_DIGEST: Final = re.compile(r"[A-Za-z0-9_-]{43}")

Data = Mapping[str, object]


class Disclosure(NamedTuple):
    """A value that was committed to, with its field's name and its salt."""

    salt: str
    name: str
    value: object


def commit(
    data: Data, names: Collection[str], randomness: Callable[[int], bytes]
) -> tuple[dict[str, object], list[str]]:
    """
    Replace fields by their digests; return what is signed, and the disclosures.

    Fields that are not there are passed over.

    >>> signed, kept = commit({"tool": "read", "path": "a"}, ["path"], lambda n: bytes(n))
    >>> signed
    {'tool': 'read', '_sd': ['1jeMQXuh2rde7DCZy4qI-yV1fSfGzccezBCvsnwDAV4']}
    >>> read_disclosure(kept[0]).value
    'a'
    """
    clear = {name: value for name, value in data.items() if name not in names}
    kept = [
        _text64(canonical([_text64(randomness(SALT_BYTES)), name, data[name]]).encode())
        for name in names
        if name in data
    ]
    if kept:
        clear[COMMITTED] = sorted(digest(disclosure) for disclosure in kept)
    return clear, kept


def digest(disclosure: str) -> str:
    """
    Return what stands in the line for a disclosure: 43 characters.

    The example is that of RFC 9901, section 4.2.3.

    >>> digest("WyJfMjZiYzRMVC1hYzZxMktJNmNCVzVlcyIsICJmYW1pbHlfbmFtZSIsICJNw7ZiaXVzIl0")
    'X9yH0Ajrdm1Oij4tWso9UzzKJvPoDxwmuEcO3XAdRC0'
    """
    return _text64(sha256(disclosure.encode()).digest())


def plain_digest(digest: str) -> str:
    """Return a digest in the spelling of all other hashes of a receipt: 64 hex digits."""
    return urlsafe_b64decode(digest + "=").hex()


def read_disclosure(text: str) -> Disclosure:
    """
    Read a disclosure; whether a line committed to it is not looked at.

    Raises:
        Break: it is not base64url of a salt, a name and a value (``disclosure``).
    """
    try:
        content = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        # As the one member of an object, so that it is read as strictly as a line's data is.
        (found,) = strict_object(f'{{"d":{content.decode()}}}').values()
    except (ValueError, Break):
        found = None
    match found:
        case [str(salt), str(name), value] if _text64(content) == text:
            return Disclosure(salt, name, value)
    raise Break("disclosure", "a disclosure is not a salt, a name and a value")


def committed(data: Data) -> tuple[str, ...]:
    """
    Return the digests in a line's data.

    Raises:
        Break: they are not sorted digests, each once (``schema``).

    >>> committed({"tool": "read"})
    ()
    """
    if COMMITTED not in data:
        return ()
    found = data[COMMITTED]
    if not (
        isinstance(found, list)
        and found
        and all(isinstance(d, str) and _DIGEST.fullmatch(d) for d in found)
        and found == sorted(set(found))
    ):
        raise Break("schema", f"`{COMMITTED}` is not a sorted list of digests, each once")
    return tuple(found)


def shown(data: Data, disclosures: Mapping[str, str]) -> tuple[dict[str, object], int]:
    """
    Return the values that a line committed to and that were kept, and how many were not.

    Args:
        data: the line's data, verified.
        disclosures: by digest.

    Raises:
        Break: a disclosure is not what was committed to (``disclosure``).

    >>> signed, kept = commit({"path": "a"}, ["path"], lambda n: bytes(n))
    >>> shown(signed, by_digest(kept)), shown(signed, {})
    (({'path': 'a'}, 0), ({}, 1))
    """
    values: dict[str, object] = {}
    missing = 0
    for promised in committed(data):
        text = disclosures.get(promised)
        if text is None:
            missing += 1
            continue
        found = read_disclosure(text)
        if digest(text) != promised:
            raise Break("disclosure", "a disclosure is not the one that the line committed to")
        if found.name in data or found.name in values or found.name in (COMMITTED, "..."):
            raise Break("disclosure", f"a disclosure names `{found.name}`, which is there already")
        values[found.name] = found.value
    return values, missing


def proven(data: Data, disclosures: Iterable[str]) -> dict[str, object]:
    """
    Return the values that somebody shows for a line, each one that it committed to.

    Raises:
        Break: the line did not commit to one of them (``disclosure``).

    >>> signed, kept = commit({"path": "a"}, ["path"], lambda n: bytes(n))
    >>> proven(signed, kept), proven(signed, [])
    ({'path': 'a'}, {})
    """
    texts = by_digest(disclosures)
    if texts and not set(texts) <= set(committed(data)):
        raise Break("disclosure", "the line did not commit to what is shown for it")
    return shown(data, texts)[0] if texts else {}


def by_digest(disclosures: Iterable[str]) -> dict[str, str]:
    """Return disclosures by their digests, as ``shown`` takes them."""
    return {digest(text): text for text in disclosures}


def _text64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()
