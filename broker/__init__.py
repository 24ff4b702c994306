"""
The public names of the broker, each loaded the first time it is used.

Decided here: which names are public, and in which module each one lives. Nothing else: this
module imports no other, so that ``import broker`` costs about a millisecond.

Rules a maintainer keeps: a public name stands in three places (``__all__``, ``_HOMES`` and the
imports that only type checkers read), and a test compares them. Modules of this package import
from each other's modules, never from here. ``authorize`` is both a function and the module
it lives in: under ``broker`` the function always wins, so reach the module's other names with
``from broker.authorize import …``.

>>> from broker import Decision
>>> Decision(None).allowed
True
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False  # as `typing` spells it: importing `typing` would triple the cost
if TYPE_CHECKING:
    from broker.api import append, attach, check, from_scope, narrowed
    from broker.authorize import authorize, enforce
    from broker.calls import Call, Decision, Refusal
    from broker.caveats import Caveat
    from broker.errors import Break
    from broker.guard import TicketGuard
    from broker.intent import Intents
    from broker.receipt.keys import load_or_create_key, sign
    from broker.receipt.store import Receipts
    from broker.receipt.verify import verify
    from broker.scope import parse_scope, render
    from broker.ticket import Ticket, attenuate, describe, mint, verify_chain

__all__ = [
    "Break",
    "Call",
    "Caveat",
    "Decision",
    "Intents",
    "Receipts",
    "Refusal",
    "Ticket",
    "TicketGuard",
    "append",
    "attach",
    "attenuate",
    "authorize",
    "check",
    "describe",
    "enforce",
    "from_scope",
    "load_or_create_key",
    "mint",
    "narrowed",
    "parse_scope",
    "render",
    "sign",
    "verify",
    "verify_chain",
]

_HOMES = {
    "Break": "broker.errors",
    "Call": "broker.calls",
    "Caveat": "broker.caveats",
    "Decision": "broker.calls",
    "Intents": "broker.intent",
    "Receipts": "broker.receipt.store",
    "Refusal": "broker.calls",
    "Ticket": "broker.ticket",
    "TicketGuard": "broker.guard",
    "append": "broker.api",
    "attach": "broker.api",
    "attenuate": "broker.ticket",
    "authorize": "broker.authorize",
    "check": "broker.api",
    "describe": "broker.ticket",
    "enforce": "broker.authorize",
    "from_scope": "broker.api",
    "load_or_create_key": "broker.receipt.keys",
    "mint": "broker.ticket",
    "narrowed": "broker.api",
    "parse_scope": "broker.scope",
    "render": "broker.scope",
    "sign": "broker.receipt.keys",
    "verify": "broker.receipt.verify",
    "verify_chain": "broker.ticket",
}


class LazyPackage(ModuleType):
    """
    A package that loads each public name from its home, a module of ``_HOMES``, at its first use.

    A public name cannot be taken by a submodule that bears the same one.
    """

    _HOMES: dict[str, str]

    def __getattr__(self, name: str) -> object:
        home = self._HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        from importlib import import_module  # noqa: PLC0415 - only a first use pays for it

        value: object = getattr(import_module(home), name)
        setattr(self, name, value)
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # The import system binds every submodule to its name on the package, here as it loads
        # `broker.authorize`. Dropping that one binding leaves the name to `__getattr__`.
        if name in self._HOMES and isinstance(value, ModuleType):
            return
        super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*vars(self), *self._HOMES})


sys.modules[__name__].__class__ = LazyPackage
