"""
Values that are secrets by their own form, whatever name they bear.

Decided here: the forms that are known, each by a text that it begins with or holds and by the
pattern that it must match there. Not decided here: what stands in their place.

Rules a maintainer keeps: a text is searched for the beginnings, which is fast, and a pattern is
tried only at those; a pattern that repeats is bounded or cannot be tried again at the same place,
so that time is linear; a form that ordinary texts have is left out, whatever it may hide.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple


class Shape(NamedTuple):
    """
    One form: its kind, what is searched for, and the pattern of the secret from there on.

    ``bare`` says that nothing that belongs to a word may stand before it. A pattern may have a
    group: then that is the secret. It is compiled when a text holds its beginning.
    """

    kind: str
    begin: str
    pattern: str
    bare: bool = True


def _shape(kind: str, begin: str, rest: str, *, bare: bool = True) -> Shape:
    # No look-behind here: what stands before is looked at once, by `shaped`.
    return Shape(kind, begin, re.escape(begin) + rest, bare)


_ENDS: Final = r"(?![A-Za-z0-9_-])"
SHAPES: Final[tuple[Shape, ...]] = (
    _shape("pem", "-----BEGIN ", r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
           r"(?s:.*?)(?:-----END [A-Z0-9 ]{0,40}-----|\Z)", bare=False),
    # Model providers.
    _shape("provider", "sk-", r"[A-Za-z0-9_-]{16,}"),
    _shape("provider", "gsk_", r"[A-Za-z0-9]{20,}"),
    _shape("provider", "xai-", r"[A-Za-z0-9]{20,}"),
    _shape("provider", "pplx-", r"[A-Za-z0-9]{20,}"),
    _shape("provider", "tvly-", r"[A-Za-z0-9-]{20,}"),
    _shape("provider", "hf_", r"[A-Za-z0-9]{20,}"),
    _shape("provider", "r8_", r"[A-Za-z0-9]{20,}"),
    # Clouds.
    _shape("cloud", "AKIA", r"[A-Z0-9]{16}"),
    _shape("cloud", "ASIA", r"[A-Z0-9]{16}"),
    _shape("cloud", "AIza", r"[A-Za-z0-9_-]{30,}"),
    _shape("cloud", "ya29.", r"[A-Za-z0-9_.-]{20,}"),
    _shape("cloud", "GOCSPX-", r"[A-Za-z0-9_-]{20,}"),
    _shape("cloud", "dop_v1_", r"[a-f0-9]{32,}"),
    _shape("cloud", "dapi", r"[a-f0-9]{32}" + _ENDS),
    _shape("cloud", "hvs.", r"[A-Za-z0-9_-]{20,}"),
    _shape("cloud", "X-Amz-Signature=", r"([A-Fa-f0-9]{16,})"),
    _shape("cloud", "sig=", r"([A-Za-z0-9%+/=_-]{32,})"),
    # Code forges and packages.
    _shape("forge", "ghp_", r"[A-Za-z0-9]{16,}"),
    _shape("forge", "gho_", r"[A-Za-z0-9]{16,}"),
    _shape("forge", "ghu_", r"[A-Za-z0-9]{16,}"),
    _shape("forge", "ghs_", r"[A-Za-z0-9]{16,}"),
    _shape("forge", "ghr_", r"[A-Za-z0-9]{16,}"),
    _shape("forge", "github_pat_", r"[A-Za-z0-9_]{16,}"),
    _shape("forge", "glpat-", r"[A-Za-z0-9_-]{16,}"),
    _shape("forge", "ATATT3", r"[A-Za-z0-9_=-]{30,}"),
    _shape("package", "npm_", r"[A-Za-z0-9]{30,}"),
    _shape("package", "pypi-", r"[A-Za-z0-9_-]{30,}"),
    _shape("package", "rubygems_", r"[a-f0-9]{40,}"),
    _shape("package", "dckr_pat_", r"[A-Za-z0-9_-]{20,}"),
    # Chat, mail, payment, monitoring.
    *(_shape("chat", f"xox{kind}-", r"[A-Za-z0-9-]{8,}") for kind in "abeoprs"),
    _shape("chat", "xapp-", r"[A-Za-z0-9-]{16,}"),
    _shape("chat", "hooks.slack.com/services/", r"([A-Za-z0-9/_-]{8,})"),
    _shape("chat", "/api/webhooks/", r"([0-9]{5,}/[A-Za-z0-9_-]{20,})", bare=False),
    _shape("payment", "sk_live_", r"[A-Za-z0-9]{16,}"),
    _shape("payment", "sk_test_", r"[A-Za-z0-9]{16,}"),
    _shape("payment", "rk_live_", r"[A-Za-z0-9]{16,}"),
    _shape("payment", "whsec_", r"[A-Za-z0-9+/=]{16,}"),
    _shape("payment", "sq0csp-", r"[A-Za-z0-9_-]{20,}"),
    _shape("mail", "SG.", r"[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}"),
    _shape("mail", "key-", r"[a-f0-9]{32}" + _ENDS),
    _shape("service", "shpat_", r"[A-Fa-f0-9]{24,}"),
    _shape("service", "lin_api_", r"[A-Za-z0-9]{20,}"),
    _shape("service", "ntn_", r"[A-Za-z0-9]{30,}"),
    _shape("service", "figd_", r"[A-Za-z0-9_-]{20,}"),
    _shape("service", "glsa_", r"[A-Za-z0-9_]{20,}"),
    _shape("service", "sntrys_", r"[A-Za-z0-9_=+/-]{20,}"),
    _shape("service", "NRAK-", r"[A-Z0-9]{20,}"),
    _shape("service", "PMAK-", r"[a-f0-9]{24}-[a-f0-9]{30,}"),
    _shape("service", "AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}"),
    # Forms of the web.
    _shape("claims", "eyJ", r"[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*){0,3}"),
    _shape("userinfo", "://", r"([^/\s@\"'?#\\]+)(?=@)", bare=False),
)  # fmt: skip


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def shaped(text: str) -> Iterator[tuple[int, int, str]]:
    """
    Yield (start, end, kind) of every value that is a secret by its form; they may overlap.

    >>> list(shaped("use ghp_0123456789abcdef0123 now"))
    [(4, 28, 'forge')]
    """
    for shape in SHAPES:
        at = text.find(shape.begin)
        while at >= 0:
            after = at + len(shape.begin)
            before = text[at - 1] if at else " "
            found = None
            if not (shape.bare and (before.isalnum() or before in "_-")):
                found = _compiled(shape.pattern).match(text, at)
            if found:
                start, end = found.span(1 if found.re.groups else 0)
                yield start, end, shape.kind
                after = max(end, after)
            at = text.find(shape.begin, after)
