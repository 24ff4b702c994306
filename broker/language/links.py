"""
Which addresses and accounts does a text name?

Decided here: what in a free text a reader, or the program that shows it, would take for an address
of the web or of mail, or for an account number; and when two of them are the same. Not decided
here: which of them a text may name (``broker.conditions``).

Rules a maintainer keeps: in doubt it is one, because a text is refused by what is found; what is
spelled with full-width letters, ideographic dots or invisible characters is found too; letter case,
accents and look-alikes make two different ones; the time it takes grows with the text and not
faster. What a reader would have to put together (*evil dot com*) is not found, and no text is safe
by this.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from unicodedata import category, normalize

from broker.language.inline import stands_in

_REMEMBERED_CHARS: Final = 4_096  # a longer text is gone through each time
# What stands between two blanks and has a sign of an address that does not only end a sentence.
# It begins at a blank and never goes back, so that a long word takes one look.
_TELLING: Final = re.compile(r"(?<!\S)[^\s.:@]*+(?:@|[.:](?=\S))\S*+")
_BREAKS: Final = re.compile(r'[<>"“”„«»]+')
_APART: Final = re.compile(r"[,;|()\[\]{}`]+")
_RUN: Final = re.compile(r"[\w.-]+")
_DOTS: Final = re.compile(r"\.{2,}")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}\Z")
_ACTING: Final = re.compile(  # what acts when it is followed, and has no `//`
    r"\b(?:javascript|vbscript|data|blob|file|tel|sms|callto|magnet|intent):[^\s]", re.IGNORECASE
)
_LABELLED: Final = re.compile(r"[A-Za-z]{1,16}:(?=[^/])")  # `mailto:`, `to:`
# An account: an IBAN, a national number that begins like one, or the address of a coin.
_ACCOUNT: Final = re.compile(
    r"(?<![A-Za-z0-9])(?:[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]){8,30}|(?:bc|tb)1[02-9a-z]{11,87}"
    r"|0x[0-9A-Fa-f]{40}|[13][1-9A-HJ-NP-Za-km-z]{25,34})(?![A-Za-z0-9])"
)
_DIGIT: Final = re.compile("[0-9]")
_ACCOUNT_LIKE: Final = re.compile(
    r"[A-Z]{2}[0-9]{2}|[bt][bc]1|0x[0-9A-Fa-f]{8}|[13][1-9A-Za-z]{25}"
)
_DOT_LIKE: Final = str.maketrans({"。": ".", "｡": ".", "．": ".", "․": "."})


def links_in(text: str) -> tuple[str, ...]:
    """
    Return the addresses and account numbers that a text names, in the form in which they compare.

    >>> links_in("See https://a.test/x, or ask bob@b.test: he has GB29 NWBK 6016 1331 9268 19.")
    ('GB29NWBK60161331926819', 'a.test/x', 'bob@b.test')
    >>> links_in("At 10.30 we pay 98.70, e.g. by card...")
    ()
    """
    return _remembered(text) if len(text) <= _REMEMBERED_CHARS else _found(text)


def _found(text: str) -> tuple[str, ...]:
    plain = text
    if not text.isascii():
        plain = normalize("NFKC", text.translate(_DOT_LIKE)).translate(_DOT_LIKE)
        plain = "".join([sign for sign in plain if category(sign) != "Cf"])
    named: list[str] = []
    if _DIGIT.search(plain) and _ACCOUNT_LIKE.search(plain):
        named += [found.group().replace(" ", "") for found in _ACCOUNT.finditer(plain)]
    for token in _TELLING.findall(plain):
        named += [link_form(link) for part in _BREAKS.split(token) for link in _of_token(part)]
    return tuple(dict.fromkeys(named)) if named else ()


_remembered: Final = lru_cache(maxsize=256)(_found)


def links_stand(line: str | None, text: str) -> bool:
    """
    Return whether each address and account of a text stands in a line, or the text itself does.

    >>> links_stand("Send bob@b.test the plan", "Bob <bob@b.test>, here it is")
    True
    >>> links_stand("Send bob@b.test the plan", "Here it is: www.evil.test/plan")
    False
    """
    known = all(line is not None and stands_in(line, link) for link in links_in(text))
    return known or (line is not None and stands_in(line, text))


def link_form(link: str) -> str:
    """
    Return the form in which two addresses or accounts compare.

    Its scheme (``http``, ``https``, ``mailto``), a last ``/`` and an account's blanks make no
    difference.

    >>> link_form("https://a.test/"), link_form("GB29 NWBK 6016 1331")
    ('a.test', 'GB29NWBK60161331')
    """
    if _ACCOUNT.fullmatch(link):
        return link.replace(" ", "")
    for scheme in ("https://", "http://", "mailto:"):
        link = link.removeprefix(scheme)
    return link.removesuffix("/")


def _of_token(token: str) -> Iterator[str]:
    """Yield what stands between two blanks and names something."""
    before, there, rest = token.partition("://")
    if there:
        scheme = _SCHEME.search(before[-31:])
        begins = len(before) - len(scheme.group()) if scheme else len(before)
        yield _stripped(before[begins:] + there + rest)
        token = before[:begins]
    if "." in token or "@" in token or ":" in token:
        for piece in _APART.split(token):
            if _names(piece):
                acting = _ACTING.search(piece)
                yield _stripped(piece if acting else _LABELLED.sub("", piece, count=1))


def _names(piece: str) -> bool:
    """Return whether a piece holds a mailbox, a site's name, or a numeric address."""
    front, at, behind = piece.partition("@")
    if at and front[-1:].isalnum() and behind[:1].isalnum():
        return True
    if _ACTING.search(piece):
        return True
    return any(
        _site(part.split("."))
        for run in _RUN.findall(piece)
        for part in _DOTS.split(run.strip(".-_"))
    )


def _site(labels: list[str]) -> bool:
    last = labels[-1]
    if len(labels) > 1 and len(last) > 1 and last[0].isalpha():
        return True
    return len(labels) == 4 and all(label.isdecimal() and len(label) < 4 for label in labels)


def _stripped(link: str) -> str:
    """Return a link without the signs that surround it in a sentence."""
    link = link.strip(".,:;!?*_~'’‘)(][}{|`-")
    return link.removesuffix("'s").removesuffix("’s")
