"""
The one place where whatever breaks is caught.

Decided here: that an error nobody foresaw becomes a value, so that its caller can answer with a
refusal. Not decided here: what the answer is; each caller says that.

Rules a maintainer keeps: nothing else in this package catches ``Exception`` and goes on (the
hook's client, which imports nothing, has its own copy of this rule); what is given as
``otherwise`` must refuse, never allow; an interrupt and an exit are not errors and pass through.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def contained(work: Callable[[], T], otherwise: Callable[[Exception], T]) -> T:
    """
    Return what ``work`` returns, or what ``otherwise`` makes of the error that it raised.

    >>> contained(lambda: 1 // 0, lambda error: -1)
    -1
    """
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the purpose of this module
        return otherwise(error)
