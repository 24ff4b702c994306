"""One tool call of a framework, from the model's text to the end that is recorded."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker import frameworks
from broker.errors import AttenuationError, InputError, Refused, StoreError
from broker.frameworks.calling import abegin, begin, child, plain, refusal_text, sdk_missing
from broker.frameworks.holding import Holder, current, session
from broker.limits import MAX_ARGUMENT_DEPTH, MAX_ARGUMENT_VALUES, MAX_REQUEST_BYTES
from broker.resolve import Resolver
from broker.service.client import SessionClient
from broker.service.server import Server
from tests.sessionkit import Bench, bench

__all__ = ["bench"]

SCOPE = ("tools=read,note,count(items absent)", "paths=src/**", "calls=4")


@pytest.fixture
def held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holder]:
    """A session whose scope admits reading below src."""
    monkeypatch.chdir(bench.workspace)
    with session(
        SCOPE, workspace=bench.workspace, home=bench.home, environ={}, outside=bench.outside
    ) as opened:
        yield opened


def answers(bench: Bench, held: Holder) -> list[tuple[str, str]]:
    """Return tool and answer of each decision: allow, or the caveat that refused."""
    found = [d for kind, d in bench.entries(held.sid) if kind == "decision"]
    return [(d["tool"], d["caveat"] if d["decision"] == "refuse" else "allow") for d in found]


def ends(bench: Bench, held: Holder) -> list[tuple[str, bool]]:
    """Return how the calls ended."""
    return [(d["call"], d["ok"]) for kind, d in bench.entries(held.sid) if kind == "result"]


def test_what_was_decided_runs_and_its_end_is_kept(bench: Bench, held: Holder) -> None:
    """The arguments of an allowed call are those of the text, and its end is recorded once."""
    with begin("read", '{"path": "src/a.py"}', call_id="c1") as begun:
        assert begun.arguments == {"path": "src/a.py"} == json.loads(begun.text)
        begun.output = "a = 1"
    begun.end(ok=False)
    assert answers(bench, held) == [("read", "allow")]
    assert ends(bench, held) == [("c1", True)]


def test_the_end_of_what_fails(bench: Bench, held: Holder) -> None:
    """A block that is left by an error ends the call as failed; an output may be anything."""
    with pytest.raises(ZeroDivisionError), begin("note", {}, call_id="c1"):
        _ = 1 // 0
    with begin("note", None, call_id="c2") as begun:
        begun.output = object()
    assert ends(bench, held) == [("c1", False), ("c2", True)]


def test_what_the_model_reads(held: Holder) -> None:
    """A refusal names the caveat, says what is allowed, and is one line."""
    with pytest.raises(Refused) as refused:
        begin("shell", b'{"command": "id"}')
    text = refusal_text(refused.value)
    assert text.startswith("refused (tools): tool `shell` is not in tools: ")
    assert "\n" not in text
    assert refused.value.detail["decision"].refusal.caveat == "tools"


def test_arguments_are_copied_before_they_are_decided(held: Holder) -> None:
    """A mapping that changes after the decision changes nothing of what runs."""
    asked = {"items": ["src/a.py"]}
    begun = begin("read", MappingProxyType({"path": "src/a.py", "more": asked}))
    asked["items"].append("/etc/passwd")
    assert begun.arguments == {"path": "src/a.py", "more": {"items": ["src/a.py"]}}


def test_a_task_copies_before_it_waits(held: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes while a task waits for its decision changes nothing of what runs."""
    asked = {"path": "src/a.py"}
    real: Any = Resolver.resolve

    def meanwhile(*given: Any, **named: Any) -> Any:
        asked["path"] = "/etc/passwd"
        return real(*given, **named)

    monkeypatch.setattr(Resolver, "resolve", meanwhile)

    async def both() -> dict[str, object]:
        async with await abegin("read", asked) as begun:
            return begun.arguments

    assert asyncio.run(both()) == {"path": "src/a.py"}
    assert asked == {"path": "/etc/passwd"}


@pytest.mark.parametrize("text", ["", "  \n", b"", "{}", None, {}])
def test_a_call_without_arguments(held: Holder, text: object) -> None:
    """Whatever a framework gives for no arguments is an empty object."""
    assert begin("note", text).arguments == {}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("[1]", "they are no JSON object"),
        ("7", "they are no JSON object"),
        (7, "they are no JSON object"),
        ('{"path": ', "they are no JSON"),
        ('{"a": NaN}', "NaN is not a number of JSON"),
        ('{"a": 1e999}', "1e999 is too large a number"),
        ('{"a": {"b": 1, "b": 2}}', "a name stands twice"),
        (b'{"path": "\xff"}', "they are no JSON"),
        ("[" * 100_000, "nested deeper than"),
        ('{"a":' + "[" * MAX_ARGUMENT_DEPTH + "]" * MAX_ARGUMENT_DEPTH + "}", "nested deeper than"),
        ("[" + "1," * MAX_ARGUMENT_VALUES + "1]", "more than 250000 values"),
        (" " * (MAX_REQUEST_BYTES + 1), "are longer than"),
        ({"a": b"x"}, "a `bytes` is no JSON value"),
        ({1: "x"}, "a name that is no text"),
    ],
    ids=lambda value: str(value)[:12] if isinstance(value, str | bytes) else None,
)
def test_what_cannot_be_read(bench: Bench, held: Holder, arguments: object, why: str) -> None:
    """Arguments that have no one reading are refused by that reason, and it is recorded."""
    with pytest.raises(Refused, match="the arguments of `read` cannot be read") as refused:
        begin("read", arguments, call_id="c1")
    assert why in str(refused.value)
    assert answers(bench, held) == [("read", "call")]
    with pytest.raises(Refused):
        asyncio.run(abegin("read", arguments))


def test_without_a_session() -> None:
    """Outside of any block it is the code that is wrong, not the model."""
    for ask in (lambda: begin("read", {}), lambda: asyncio.run(abegin("read", {}))):
        with pytest.raises(InputError, match="no session is open here"):
            ask()


def test_a_ticket_of_ones_own(bench: Bench, held: Holder) -> None:
    """A ticket that is given counts, and not that of the block."""
    few = held.delegate("tools=note", name="few")
    with pytest.raises(Refused, match="`read` is not in tools: note"):
        begin("read", {"path": "src/a.py"}, held=few)
    assert begin("read", {"path": "src/a.py"}).held is held


def test_whatever_breaks_refuses(
    bench: Bench, held: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that nobody foresaw is a refusal, and the session goes on."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("nobody foresaw this")

    with monkeypatch.context() as patched:
        patched.setattr(Resolver, "resolve", broken)
        with pytest.raises(Refused, match=r"could not be decided.*nobody foresaw this"):
            begin("note", {})
    begin("note", {})
    assert answers(bench, held) == [("note", "allow")]


def test_an_error_in_one_reading_is_recorded(
    bench: Bench, held: Holder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where only this call breaks, the refusal stands in the receipt."""
    real: Any = Resolver.resolve

    def broken(self: Resolver, tool: object, arguments: object, **named: Any) -> Any:
        if isinstance(arguments, dict):
            raise ZeroDivisionError
        return real(self, tool, arguments, **named)

    monkeypatch.setattr(Resolver, "resolve", broken)
    with pytest.raises(Refused):
        begin("note", {})
    assert answers(bench, held) == [("note", "call")]


def test_a_folder_that_is_gone(bench: Bench, held: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths that start nowhere are refused."""
    gone = bench.workspace / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    os.rmdir(gone)
    with pytest.raises(Refused):
        begin("read", {"path": "src/a.py"})
    assert answers(bench, held) != [("read", "allow")]


def test_an_end_that_cannot_be_told(held: Holder) -> None:
    """A broker that is gone when a call ends does not break what the tool returned."""
    begun = begin("note", {})
    begun.held = Holder(SessionClient("/nowhere/at/all"))
    begun.end(ok=True)
    with pytest.raises(StoreError):
        begun.held.result("c1", ok=True)


def test_many_tasks_share_a_budget(bench: Bench, held: Holder) -> None:
    """Of ten calls at once under a budget of four, four are let through."""

    async def ten() -> list[object]:
        asks = [abegin("note", {}, call_id=f"c{n}") for n in range(10)]
        return list(await asyncio.gather(*asks, return_exceptions=True))

    found = asyncio.run(ten())
    assert sum(isinstance(each, Refused) for each in found) == 6
    assert sorted(answer for _, answer in answers(bench, held)) == ["allow"] * 4 + ["calls"] * 6


def test_a_cancelled_task_runs_nothing(held: Holder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is cancelled while its call is decided never gets to run it."""
    asked, go = threading.Event(), threading.Event()
    real: Any = Resolver.resolve

    def slow(*given: Any, **named: Any) -> Any:
        asked.set()
        go.wait(10)
        return real(*given, **named)

    monkeypatch.setattr(Resolver, "resolve", slow)
    ran = []

    async def call() -> None:
        async with await abegin("note", {}):
            ran.append(1)

    async def cancelled() -> None:
        task = asyncio.ensure_future(call())
        while not asked.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.wait([task])
        go.set()

    asyncio.run(cancelled())
    assert ran == []


# ── delegates ──


def test_the_same_delegate_keeps_its_ticket(bench: Bench, held: Holder) -> None:
    """A name gets one ticket from one holder for one scope, and another for another."""
    first = child(held, "reviewer", ["tools=read"])
    assert child(held, "reviewer", ["tools=read"]) is first
    assert child(held, "reviewer", ["tools=note"]) is not first
    assert child(first, "reviewer", ["tools=read"]) is not first
    assert len([d for kind, d in bench.entries(held.sid) if kind == "delegate"]) == 3


def test_a_definitions_own_tools_narrow(bench: Bench, held: Holder) -> None:
    """The tools of a definition are folded in, as far as its caller holds them (row 10)."""
    helper = child(held, "helper", tools=["read", "shell", "count", "odd name*"])
    asked = {"path": "src/a.py"}
    refused = [t for t in ("read", "note", "shell") if not helper.check(t, asked).allowed]
    assert refused == ["note", "shell"]
    (handed,) = [d for kind, d in bench.entries(held.sid) if kind == "delegate"]
    assert handed["caveats"] == ["tools=read,count(items absent)"]
    nobody = child(held, "nobody", tools=["shell"])
    assert not nobody.check("note", {}).allowed


def test_a_delegate_never_gets_more(bench: Bench, held: Holder) -> None:
    """What would permit more is refused by name each time, and recorded each time."""
    for _ in range(2):
        with pytest.raises(AttenuationError, match="widens"):
            child(held, "helper", ["tools=shell"])
    found = [d["decision"] for kind, d in bench.entries(held.sid) if kind == "delegate"]
    assert found == ["refuse", "refuse"]


def test_a_block_of_a_holder(held: Holder) -> None:
    """Code inside the block of a holder works under its ticket, and afterwards not."""
    few = child(held, "few", ["tools=note"])
    with few.block():
        assert current() is few
        with pytest.raises(Refused):
            begin("read", {"path": "src/a.py"})
    assert current() is held


FOLDER = Path(frameworks.__file__).parent
ADAPTERS = [p.stem for p in sorted(FOLDER.glob("*.py")) if "raise sdk_missing(" in p.read_text()]


class NoFramework:
    """Finds nothing but the standard library and the broker."""

    def find_spec(self, name: str, *_: object) -> None:
        """Say that a module is not there."""
        if name.partition(".")[0] not in {"broker", *sys.stdlib_module_names}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("name", ADAPTERS)
def test_an_adapter_without_its_framework(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever imports an adapter without its framework reads what to install, an extra we have."""
    extras = tomllib.loads((FOLDER.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in {"mcp", "mcp_types"} or loaded.endswith(name):
            monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(sys, "meta_path", [NoFramework(), *sys.meta_path])
    with pytest.raises(InputError, match="pip install 'capability-broker") as missing:
        importlib.import_module(f"broker.frameworks.{name}")
    assert missing.value.code == "input.extra"
    extra = str(missing.value).partition("[")[2].partition("]")[0]
    assert extra in extras["project"]["optional-dependencies"]


def test_under_a_run(bench: Bench, tmp_path: Path) -> None:
    """In a run of another process the same calls are decided, ended and handed down there."""
    running = bench.open(["tools=read,note", "calls=3"])
    server = Server(running, tmp_path / "s", {})
    server.bind()
    server.start()
    try:
        with session(environ={"BROKER_SOCKET": str(tmp_path / "s")}) as held:
            with begin("read", '{"path": "src/a.py"}', call_id="c1") as begun:
                begun.output = "a = 1"
            helper = child(held, "helper", tools=["note", "shell"])
            with helper.block(), begin("note", {}, call_id="c2"):
                pass
            with pytest.raises(Refused, match="`read` is not in tools: note"):
                asyncio.run(abegin("read", {}, held=helper))
            with pytest.raises(Refused, match="they are no JSON"):
                begin("note", "{")
    finally:
        server.stop()
    assert answers(bench, Holder(running)) == [
        *[("read", "allow"), ("note", "allow"), ("read", "tools"), ("note", "call")]
    ]
    assert ends(bench, Holder(running)) == [("c1", True), ("c2", True)]


def test_a_missing_framework() -> None:
    """The error of a framework that is not there says what to install."""
    assert str(sdk_missing("langchain")).endswith("pip install 'capability-broker[langchain]'")
    assert sdk_missing("langchain").code == "input.extra"


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.just(Path("a")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
        max_leaves=10,
    )
)
def test_values_are_told_whole(value: object) -> None:
    """The copy equals the value, and the JSON has nothing of it left out or added."""
    told, copied = plain(value)
    assert copied == value
    assert type(copied) is type(value)
    assert told == _naive(value)


def _naive(value: Any) -> Any:
    if isinstance(value, Path):
        return os.fspath(value)
    if isinstance(value, list | tuple):
        return [_naive(item) for item in value]
    if isinstance(value, dict):
        return {key: _naive(item) for key, item in value.items()}
    return value
