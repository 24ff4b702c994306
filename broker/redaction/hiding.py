"""
What stands in the place of a secret, and how many there were.

Decided here: the placeholder. Without a salt it is ``[hidden]``. With one it also tells the kind
and eight digits of a keyed digest, so that within one record the same secret can be told from
another, and across records with other salts it cannot.

Rules a maintainer keeps: a placeholder holds nothing that JSON or a quote would have to escape,
and is not hidden again, so a kind is no word for a secret; a salt is secret and is never written
beside what it hides, since a short secret could be guessed from its digest.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from typing import Final

from broker.redaction.texts import Span, secrets_in

MARK: Final = "[hidden]"
_HALF_CHARS: Final = 512  # characters of a secret that its form does not yet tell


class Hider:
    """
    Hides the secrets of one record, and counts them by kind.

    >>> hider = Hider()
    >>> hider.text("curl -H 'Authorization: Bearer abcdef' https://me:pw@host/")
    "curl -H 'Authorization: [hidden]' https://[hidden]@host/"
    >>> dict(hider.counts)
    {'name': 1, 'userinfo': 1}
    >>> Hider(salt=bytes(32)).text("PASSWORD=hunter2")
    'PASSWORD=[hidden name 48d1763b]'
    """

    def __init__(self, salt: bytes = b"") -> None:
        self._salt = salt
        self.counts: Counter[str] = Counter()

    def placeholder(self, secret: str, kind: str) -> str:
        """Return what stands for a secret, and count it."""
        self.counts[kind] += 1
        if not self._salt:
            return MARK
        said = secret.encode("utf-8", "surrogatepass")
        digest = hmac.new(self._salt, said, hashlib.sha256).hexdigest()
        return f"[hidden {kind} {digest[:8]}]"

    def find(self, text: str) -> list[Span]:
        """Return what is to be hidden in a text, in order and without overlap."""
        return secrets_in(text)

    def text(self, text: str) -> str:
        """Return a text with its secrets hidden."""
        found = self.find(text)
        return self.replaced(text, found) if found else text

    def replaced(self, text: str, found: list[Span]) -> str:
        """Return a text with the given secrets hidden."""
        parts: list[str] = []
        at = 0
        for start, end, kind in found:
            parts += [text[at:start], self.placeholder(text[start:end], kind)]
            at = end
        return "".join([*parts, text[at:]])


def clipped(text: str, limit: int, mark: str = "") -> str:
    """
    Return a text without secrets that has at most so many characters, and a mark if it was cut.

    More is searched than is kept, and the end of that is never shown: a secret that is cut in
    half has no form any more.

    >>> clipped("PASSWORD=hunter2 is long", 12, "…")
    'PASSWORD=[hi…'
    """
    unsure = min(limit, _HALF_CHARS)
    searched = 2 * limit + unsure
    kept = redacted(text[:searched])
    if len(text) > searched:
        return kept[: max(0, len(kept) - unsure)][:limit] + mark
    return kept if len(kept) <= limit else kept[:limit] + mark


def redacted(text: str) -> str:
    """
    Return a text with what looks like a secret replaced by ``[hidden]``.

    >>> redacted("mysql --password hunter2 -u me")
    'mysql --password [hidden] -u me'
    """
    return Hider().text(text)
