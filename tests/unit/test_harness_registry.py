"""The registry: a batch becomes visible as a whole, or not at all, whatever else goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import ExitStack
from types import MappingProxyType

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from broker.harness.items import (
    CallHook,
    Flag,
    Item,
    Provider,
    Shortcut,
    SlashCommand,
    Tool,
)
from broker.harness.registry import KINDS, Registered, Registration, RegistrationError, Registry

SCHEMA = {"type": "object"}


class StopError(Exception):
    """A handler throws."""


def failed(error: type[Exception], said: str | None, work: Callable[[], None]) -> None:
    """Expect that work on a batch fails with this error, as a whole."""
    with pytest.raises(error, match=said):
        work()


def tool(name: str) -> Tool:
    """A tool of this name."""
    return Tool(name, "", SCHEMA, lambda work, arguments: name)


def flag(name: str, default: bool | int | str = False) -> Flag:
    """A flag of this name."""
    return Flag(name, "", default)


ITEMS: list[Item] = [
    tool("read"),
    CallHook("watch", "arguments", lambda call: None),
    SlashCommand("clear", "", lambda rest: rest),
    Shortcut("ctrl+l", "clear"),
    flag("fast"),
    Provider("local", lambda name: name),
]


def names(registered: Registered) -> dict[str, list[str]]:
    """Return the names of everything that is registered, by kind."""
    return {kind: list(getattr(registered, kind)) for kind in KINDS.values()}


def test_every_kind_is_registered_and_seen_at_once() -> None:
    """Six kinds, and the defaults of flags, appear together when the batch ends."""
    registry = Registry()
    before = registry.current
    with registry.batch() as batch:
        batch.add(*ITEMS)
        batch.set_default("fast", True)
        assert registry.current is before
        assert names(batch.seen)["tools"] == ["read"]
    found = registry.current
    assert {kind: names(found)[kind] for kind in KINDS.values()} == {
        "tools": ["read"],
        "hooks": ["watch"],
        "commands": ["clear"],
        "shortcuts": ["ctrl+l"],
        "flags": ["fast"],
        "providers": ["local"],
    }
    assert (dict(found.defaults), found.version) == ({"fast": True}, 1)
    assert found.schemas["read"].fault({}) is None
    assert [hook.name for hook in found.hooks_at("arguments")] == ["watch"]
    assert found.hooks_at("result") == ()


@pytest.mark.parametrize("step", range(len(ITEMS) + 1))
def test_a_handler_that_throws_leaves_nothing(step: int) -> None:
    """Whatever was registered before the throw is gone with its batch, and what was there stays."""
    registry = Registry()
    with registry.batch() as batch:
        batch.add(tool("first"))
    before = registry.current

    def handler(batch: Registration) -> None:
        batch.add(*ITEMS[:step])
        batch.drop("tools", "first")
        raise StopError

    with pytest.raises(StopError), registry.batch() as batch:
        handler(batch)
    assert registry.current is before


def test_only_the_outermost_batch_publishes() -> None:
    """A batch inside joins the one around it, and nothing is seen until that one ends."""
    registry = Registry()
    with registry.batch() as outer:
        with outer.batch() as inner:
            with inner.batch() as innermost:
                innermost.add(tool("a"))
            assert names(outer.seen)["tools"] == []
            assert names(inner.seen)["tools"] == ["a"]
        assert names(outer.seen)["tools"] == ["a"]
        assert registry.current.version == 0
    assert (names(registry.current)["tools"], registry.current.version) == (["a"], 1)


def test_a_batch_inside_that_throws_is_gone_alone_when_it_is_caught() -> None:
    """Who catches a throw keeps the rest; who does not loses all."""
    registry = Registry()
    with registry.batch() as outer:
        outer.add(tool("a"))

        def inside() -> None:
            with outer.batch() as inner:
                inner.add(tool("b"))
                raise StopError

        failed(StopError, None, inside)
        outer.add(tool("c"))
    assert names(registry.current)["tools"] == ["a", "c"]
    before = registry.current

    def through() -> None:
        with registry.batch() as outer, outer.batch() as inner:
            inner.add(tool("d"))
            raise StopError

    failed(StopError, None, through)
    assert registry.current is before


def test_two_tasks_at_once_know_nothing_of_each_other() -> None:
    """Batches of tasks that overlap are independent, also when one of them throws."""
    registry = Registry()

    async def extension(name: str, *, throws: bool) -> list[str]:
        with registry.batch() as batch:
            batch.add(tool(f"{name}-1"))
            await asyncio.sleep(0)
            with batch.batch() as inner:
                inner.add(tool(f"{name}-2"))
                await asyncio.sleep(0)
            seen = names(batch.seen)["tools"]
            await asyncio.sleep(0)
            if throws:
                raise StopError
            return seen

    async def main() -> list[object]:
        tasks = (extension(n, throws=n == "b") for n in "abc")
        return await asyncio.gather(*tasks, return_exceptions=True)

    a, b, c = asyncio.run(main())
    assert (a, c) == (["a-1", "a-2"], ["c-1", "c-2"])
    assert isinstance(b, StopError)
    assert sorted(names(registry.current)["tools"]) == ["a-1", "a-2", "c-1", "c-2"]


def test_two_threads_at_once_know_nothing_of_each_other() -> None:
    """Batches of threads that overlap are independent, and each version is whole."""
    registry, meet, stop = Registry(), threading.Barrier(5, timeout=10), threading.Event()
    torn: list[object] = []

    def extend(n: int) -> None:
        meet.wait()
        for turn in range(20):
            with registry.batch() as batch:
                batch.add(tool(f"t{n}-{turn}-a"))
                batch.add(tool(f"t{n}-{turn}-b"))

    def look() -> None:
        meet.wait()
        while not stop.is_set():
            found = names(registry.current)["tools"]
            if len(found) % 2:
                torn.append(found)

    threads = [threading.Thread(target=extend, args=(n,)) for n in range(4)]
    looker = threading.Thread(target=look)
    for thread in [*threads, looker]:
        thread.start()
    for thread in threads:
        thread.join()
    stop.set()
    looker.join()
    assert torn == []
    assert len(names(registry.current)["tools"]) == 160
    assert registry.current.version == 80


def test_the_second_of_two_batches_that_want_one_name_is_gone_as_a_whole() -> None:
    """What was published meanwhile is not replaced, and nothing of the later batch is there."""
    registry = Registry()

    def both_add() -> None:
        with registry.batch() as one:
            one.add(tool("mine"), tool("same"))
            with registry.batch() as two:
                two.add(tool("same"))

    def both_drop() -> None:
        with registry.batch() as one:
            one.drop("tools", "same")
            with registry.batch() as two:
                two.drop("tools", "same")

    failed(RegistrationError, "already `same`", both_add)
    assert names(registry.current)["tools"] == ["same"]
    failed(RegistrationError, "no `same`", both_drop)
    assert names(registry.current)["tools"] == []


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([tool("a"), tool("a")], "already `a`"),
        ([tool("")], "no name"),
        ([tool("a b")], "no name"),
        ([tool("x" * 200)], "no name"),
        ([Tool(None, "", SCHEMA, lambda w, a: "")], "no name"),  # type: ignore[arg-type]  # what must not work
        ([Tool("odd", "", {"type": "objekt"}, lambda w, a: "")], "cannot be used"),
        ([Shortcut("ctrl+x", "missing")], "no command"),
        (["text"], "nothing to register"),
    ],
)
def test_what_cannot_be_registered_leaves_nothing(items: list[Item], said: str) -> None:
    """A fault is named, and the whole batch is gone with it."""
    registry = Registry()
    with pytest.raises(ValueError, match=said), registry.batch() as batch:
        batch.add(tool("good"), *items)
    assert registry.current == Registered()


@pytest.mark.parametrize("value", [1, "yes", True])
def test_a_default_is_of_its_flag_s_kind(value: bool | int | str) -> None:
    """A truth is not a number, a number not a text, and without a flag there is no default."""
    registry = Registry()
    with registry.batch() as batch:
        batch.add(flag("t", True), flag("n", 2), flag("s", "x"))
    kind = {bool: "t", int: "n", str: "s"}[type(value)]
    for name in "tns":
        if name == kind:
            with registry.batch() as batch:
                batch.set_default(name, value)
        else:
            with pytest.raises(RegistrationError, match="must be"), registry.batch() as batch:
                batch.set_default(name, value)
    assert registry.current.defaults[kind] == value
    with pytest.raises(RegistrationError, match="no flag"), registry.batch() as batch:
        batch.set_default("missing", value)


def test_what_goes_takes_along_what_belongs_to_it() -> None:
    """A tool goes with its schema, a flag with its default; a shortcut keeps its command."""
    registry = Registry()
    with registry.batch() as batch:
        batch.add(*ITEMS)
    with pytest.raises(RegistrationError, match="no command"), registry.batch() as batch:
        batch.drop("commands", "clear")
    with registry.batch() as batch:
        batch.drop("commands", "clear")
        batch.drop("shortcuts", "ctrl+l")
        batch.drop("tools", "read")
        batch.drop("flags", "fast")
    assert (dict(registry.current.schemas), dict(registry.current.defaults)) == ({}, {})


def test_a_batch_that_is_over_is_over() -> None:
    """Neither a batch that ended nor one that threw registers anything later."""
    registry = Registry()
    with registry.batch() as ended:
        ended.add(tool("a"))
    with pytest.raises(StopError), registry.batch() as thrown:
        raise StopError
    for batch in (ended, thrown):
        with pytest.raises(RegistrationError, match="over"):
            batch.add(tool("late"))
        with pytest.raises(RegistrationError, match="over"), batch.batch():
            pass
    assert names(registry.current)["tools"] == ["a"]


def test_a_batch_does_not_end_before_those_inside_it() -> None:
    """A batch whose inner one is still open is gone as a whole, and so is the inner one."""
    registry = Registry()
    stack = ExitStack()

    def end_early() -> None:
        with registry.batch() as outer:
            stack.enter_context(outer.batch()).add(tool("a"))

    failed(RegistrationError, "has not ended", end_early)
    with pytest.raises(RegistrationError, match="over"):
        stack.close()
    assert registry.current == Registered()


def test_what_is_published_cannot_be_changed() -> None:
    """Nobody who looks can register."""
    registry = Registry()
    with registry.batch() as batch:
        batch.add(*ITEMS)
    for field in ("tools", "schemas", "hooks", "defaults"):
        assert isinstance(getattr(registry.current, field), MappingProxyType)


class Batches(RuleBasedStateMachine):
    """Any number of batches, nested and side by side, against a plain model of them."""

    def __init__(self) -> None:
        super().__init__()
        self.registry = Registry()
        self.published: list[str] = []
        # Each open batch: the context, the batch, its parent's index or None, and its own steps.
        self.open: list[list[object]] = []

    def _seen(self, index: int) -> list[str]:
        return list(self.open[index][3])  # type: ignore[call-overload,no-any-return]  # a list of names

    def _leaves(self) -> list[int]:
        parents = {entry[2] for entry in self.open if entry is not None}
        return [n for n, e in enumerate(self.open) if e is not None and n not in parents]

    @rule()
    def begin(self) -> None:
        """Open a batch of its own."""
        context = self.registry.batch()
        batch = context.__enter__()
        self.open.append([context, batch, None, list(self.published), []])

    @precondition(lambda self: self._leaves())
    @rule(data=st.data())
    def nest(self, data: st.DataObject) -> None:
        """Open a batch inside another."""
        parent = data.draw(st.sampled_from([n for n, e in enumerate(self.open) if e is not None]))
        context = self.open[parent][1].batch()  # type: ignore[attr-defined]  # a batch
        batch = context.__enter__()
        self.open.append([context, batch, parent, self._seen(parent), []])

    @precondition(lambda self: any(self.open))
    @rule(data=st.data(), name=st.sampled_from("abcd"), drops=st.booleans())
    def change(self, data: st.DataObject, name: str, drops: bool) -> None:
        """Add or drop a tool in any open batch."""
        index = data.draw(st.sampled_from([n for n, e in enumerate(self.open) if e is not None]))
        entry = self.open[index]
        seen = entry[3]
        assert isinstance(seen, list)
        fits = (name in seen) == drops
        try:
            if drops:
                entry[1].drop("tools", name)  # type: ignore[attr-defined]  # a batch
            else:
                entry[1].add(tool(name))  # type: ignore[attr-defined]  # a batch
        except RegistrationError:
            assert not fits
            return
        assert fits
        entry[3] = applied(seen, [(drops, name)])
        entry[4].append((drops, name))  # type: ignore[attr-defined]  # its steps

    @precondition(lambda self: self._leaves())
    @rule(data=st.data(), throws=st.booleans())
    def end(self, data: st.DataObject, throws: bool) -> None:
        """End a batch that has none inside it, well or by a throw."""
        index = data.draw(st.sampled_from(self._leaves()))
        context, _, parent, _, steps = self.open[index]
        self.open[index] = None  # type: ignore[call-overload]  # it is gone
        error = StopError() if throws else None
        base = self.published if parent is None else self.open[parent][3]  # type: ignore[call-overload]  # an index
        after = None if throws else applied(base, steps)
        try:
            kept = context.__exit__(type(error) if error else None, error, None)  # type: ignore[attr-defined]  # a context
            assert not kept  # a throw goes on
        except RegistrationError:
            assert after is None
        else:
            assert throws or after is not None
        if after is not None and parent is None:
            self.published = after
        elif after is not None:
            self.open[parent][3] = after  # type: ignore[call-overload]  # an index
            self.open[parent][4] += steps  # type: ignore[call-overload,operator]  # its steps

    @invariant()
    def what_is_seen_is_what_was_published(self) -> None:
        """Nothing of an open batch is visible outside, and each batch sees its own."""
        assert names(self.registry.current)["tools"] == self.published
        for entry in self.open:
            if entry is not None:
                assert names(entry[1].seen)["tools"] == entry[3]  # type: ignore[attr-defined]  # a batch

    def teardown(self) -> None:
        """Leave nothing open."""
        while leaves := self._leaves():
            context = self.open[leaves[0]][0]
            self.open[leaves[0]] = None  # type: ignore[call-overload]  # it is gone
            assert not context.__exit__(StopError, StopError(), None)  # type: ignore[attr-defined]  # a context


def applied(base: object, steps: object) -> list[str] | None:
    """Return the names after steps of (drops, name), or None when one of them does not fit."""
    found = list(base)  # type: ignore[call-overload]  # names
    for drops, name in steps:  # type: ignore[attr-defined]  # pairs
        if (name in found) != drops:
            return None
        if drops:
            found.remove(name)
        else:
            found.append(name)
    return found


TestBatches = Batches.TestCase


def test_a_hook_that_would_never_be_asked_is_refused() -> None:
    """A misspelt stage is an error, and not a hook that lets everything through."""
    registry = Registry()
    hook = CallHook("guard", "permision", lambda call: None)  # type: ignore[arg-type]  # misspelt
    with pytest.raises(RegistrationError, match="for no stage"), registry.batch() as batch:
        batch.add(hook)
    assert not registry.current.hooks
