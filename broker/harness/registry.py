"""
What is registered, and batches of changes that become visible together or not at all.

Decided here: that a batch is a thing in somebody's hands and never "the current one", so that two
batches at the same time, of threads or of tasks, know nothing of each other. A batch inside a
batch joins it when it ends well; the outermost one is published in one step. Not decided here:
what the items do.

Rules a maintainer keeps: what is published is frozen and is replaced, never changed; a batch is
checked again where it joins, since something else may have been published meanwhile; whatever
breaks, the whole batch is gone.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, get_args

from broker.errors import InputError
from broker.harness.items import (
    CallHook,
    Flag,
    Item,
    Provider,
    Shortcut,
    SlashCommand,
    Tool,
    When,
)
from broker.harness.schemas import Schema

Kind = Literal["tools", "hooks", "commands", "shortcuts", "flags", "providers"]
Value = bool | int | str

KINDS: Final[Mapping[type, Kind]] = MappingProxyType(
    {
        Tool: "tools",
        CallHook: "hooks",
        SlashCommand: "commands",
        Shortcut: "shortcuts",
        Flag: "flags",
        Provider: "providers",
    }
)
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+:-]{0,127}")


class RegistrationError(InputError):
    """Something cannot be registered as it is, or beside what is there; nothing of it was."""

    code = "registration"


@dataclass(frozen=True, slots=True)
class Registered:
    """
    Everything that is registered at one moment. Never changes.

    ``schemas`` holds the compiled schema of each tool, ``defaults`` the value of each flag.
    """

    version: int = 0
    tools: Mapping[str, Tool] = field(default_factory=dict)
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    hooks: Mapping[str, CallHook] = field(default_factory=dict)
    commands: Mapping[str, SlashCommand] = field(default_factory=dict)
    shortcuts: Mapping[str, Shortcut] = field(default_factory=dict)
    flags: Mapping[str, Flag] = field(default_factory=dict)
    providers: Mapping[str, Provider] = field(default_factory=dict)
    defaults: Mapping[str, Value] = field(default_factory=dict)

    def hooks_at(self, when: str) -> tuple[CallHook, ...]:
        """Return the hooks of one stage, in the order in which they were registered."""
        return tuple(hook for hook in self.hooks.values() if hook.when == when)


class _State:
    """What is registered, while it is being changed."""

    def __init__(self) -> None:
        self.items: dict[Kind, dict[str, Item]] = {kind: {} for kind in KINDS.values()}
        self.defaults: dict[str, Value] = {}
        self.schemas: dict[str, Schema] = {}

    def copy(self) -> _State:
        other = _State()
        other.items = {kind: dict(items) for kind, items in self.items.items()}
        other.defaults, other.schemas = dict(self.defaults), dict(self.schemas)
        return other

    def add(self, kind: Kind, name: str, item: Item) -> None:
        if name in self.items[kind]:
            raise RegistrationError(f"there is already `{name}` among the {kind}")
        if isinstance(item, CallHook) and item.when not in get_args(When):
            # Else it would be registered, never be asked, and everything be let through.
            raise RegistrationError(f"the hook `{name}` is for no stage: `{item.when}`")
        if isinstance(item, Tool):
            self.schemas[name] = Schema(item.schema, name)
        if isinstance(item, Flag):
            self.defaults[name] = item.default
        self.items[kind][name] = item

    def drop(self, kind: Kind, name: str) -> None:
        if name not in self.items[kind]:
            raise RegistrationError(f"there is no `{name}` among the {kind}")
        del self.items[kind][name]
        if kind == "tools":
            del self.schemas[name]
        if kind == "flags":
            del self.defaults[name]

    def default(self, name: str, value: Value) -> None:
        flag = self.items["flags"].get(name)
        if not isinstance(flag, Flag):
            raise RegistrationError(f"there is no flag `{name}` to give a default")
        if type(value) is not type(flag.default):
            wanted = type(flag.default).__name__
            raise RegistrationError(f"the default of the flag `{name}` must be a {wanted}")
        self.defaults[name] = value

    def check(self) -> None:
        """Check what holds between items, once all of a batch are there."""
        for shortcut in self.items["shortcuts"].values():
            if isinstance(shortcut, Shortcut) and shortcut.command not in self.items["commands"]:
                raise RegistrationError(
                    f"the shortcut `{shortcut.keys}` is for `{shortcut.command}`, "
                    "which is no command"
                )

    def frozen(self, version: int) -> Registered:
        items = {kind: MappingProxyType(dict(found)) for kind, found in self.items.items()}
        return Registered(
            version,
            schemas=MappingProxyType(dict(self.schemas)),
            defaults=MappingProxyType(dict(self.defaults)),
            **items,  # type: ignore[arg-type]  # each kind holds items of its own type
        )


@dataclass(frozen=True, slots=True)
class _Change:
    verb: Literal["add", "drop", "default"]
    kind: Kind
    name: str
    item: Item | Value | None = None

    def apply(self, state: _State) -> None:
        if self.verb == "drop":
            state.drop(self.kind, self.name)
        elif isinstance(self.item, bool | int | str):
            state.default(self.name, self.item)
        elif self.item is not None:
            state.add(self.kind, self.name, self.item)


class Registry:
    """
    What is registered with one harness. Safe among threads and tasks.

    >>> registry = Registry()
    >>> with registry.batch() as batch:
    ...     batch.add(Flag("fast", "think less", default=False))
    ...     seen = list(registry.current.flags)
    >>> seen, list(registry.current.flags)
    ([], ['fast'])
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._state = _State()
        self.current = Registered()

    @contextmanager
    def batch(self) -> Iterator[Registration]:
        """
        Yield a batch; it is published when the block ends, and gone when the block raises.

        Raises:
            RegistrationError: it does not fit what was published meanwhile, or a batch inside
                it has not ended.
        """
        batch = Registration(self._lock, self._state)
        try:
            yield batch
            with self._lock:
                state = batch.ended(self._state)
                self._state = state
                self.current = state.frozen(self.current.version + 1)
        finally:
            batch.over = True


class Registration:
    """One batch of changes; it sees what was there when it began, and what it did itself."""

    def __init__(self, lock: AbstractContextManager[object], base: _State) -> None:
        with lock:
            self._state = base.copy()
        self._lock = lock
        self._changes: list[_Change] = []
        self._open = 0
        self.over = False

    def add(self, *items: Item) -> None:
        """
        Add items, in this order.

        Raises:
            RegistrationError: a name is malformed or taken, a schema is no schema, a hook is for
                no stage, or the batch is over.
        """
        for item in items:
            kind = KINDS.get(type(item))
            if kind is None:
                raise RegistrationError(f"`{type(item).__name__}` is nothing to register")
            name = item.keys if isinstance(item, Shortcut) else item.name
            if not isinstance(name, str) or _NAME.fullmatch(name) is None:
                raise RegistrationError(f"`{name}` is no name for one of the {kind}")
            self._do(_Change("add", kind, name, item))

    def drop(self, kind: Kind, name: str) -> None:
        """
        Take an item away.

        Raises:
            RegistrationError: there is none, or the batch is over.
        """
        self._do(_Change("drop", kind, name))

    def set_default(self, flag: str, value: Value) -> None:
        """
        Give a flag another default.

        Raises:
            RegistrationError: there is no such flag, the value is of another kind, or the batch
                is over.
        """
        self._do(_Change("default", "flags", flag, value))

    @property
    def seen(self) -> Registered:
        """What this batch sees, which nobody else does yet."""
        with self._lock:
            return self._state.frozen(0)

    @contextmanager
    def batch(self) -> Iterator[Registration]:
        """
        Yield a batch inside this one; it joins this one when the block ends.

        Raises:
            RegistrationError: it does not fit what joined meanwhile, or this batch is over.
        """
        with self._lock:
            self._still()
            self._open += 1
        inner = Registration(self._lock, self._state)
        try:
            yield inner
            with self._lock:
                self._still()
                self._state = inner.ended(self._state, whole=False)
                self._changes += inner._changes
        finally:
            inner.over = True
            with self._lock:
                self._open -= 1

    def ended(self, base: _State, *, whole: bool = True) -> _State:
        """Return what becomes of a state when this batch joins it; the lock is held."""
        if self._open:
            raise RegistrationError("a batch inside this one has not ended")
        state = base.copy()
        for change in self._changes:
            change.apply(state)
        if whole:
            state.check()
        return state

    def _do(self, change: _Change) -> None:
        with self._lock:
            self._still()
            changed = self._state.copy()
            change.apply(changed)
            self._state = changed
            self._changes.append(change)

    def _still(self) -> None:
        if self.over:
            raise RegistrationError("this batch is over")
