"""Plain functions as tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from broker.errors import InputError, Refused
from broker.frameworks.functions import guarded
from broker.frameworks.holding import Holder, session
from broker.limits import MAX_ARGUMENT_DEPTH
from tests.sessionkit import Bench, bench

__all__ = ["bench"]


@pytest.fixture
def held(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Holder]:
    """A session whose scope admits reading below src, and being in the workspace."""
    monkeypatch.chdir(bench.workspace)
    scope = ["tools=read,note,stream", "paths=src/**", "calls=3"]
    with session(
        scope, workspace=bench.workspace, home=bench.home, environ={}, outside=bench.outside
    ) as opened:
        yield opened


def decisions(bench: Bench, held: Holder) -> list[tuple[str, str, str]]:
    """Return tool, answer and caveat of each decision in the receipt so far."""
    found = [d for k, d in bench.entries(held.sid) if k == "decision"]
    return [(d["tool"], d["decision"], d.get("caveat", "")) for d in found]


def results(bench: Bench, held: Holder) -> list[bool]:
    """Return how the calls ended."""
    return [d["ok"] for k, d in bench.entries(held.sid) if k == "result"]


class Trace:
    """Says whether a tool ran, and with what."""

    def __init__(self) -> None:
        self.ran: list[Any] = []


def reader(trace: Trace) -> Any:
    """Return a tool that reads a file."""

    @guarded(tool="read")
    def read_file(path: str | Path, *, limit: int = 10) -> str:
        """Read a file."""
        trace.ran.append(path)
        return Path(path).read_text(encoding="utf-8")[:limit]

    return read_file


def test_a_function_is_decided_before_it_runs(bench: Bench, held: Holder) -> None:
    """An allowed call runs and returns what it would; a refused one raises, and does not run."""
    trace = Trace()
    read = reader(trace)
    assert read("src/a.py") == read(Path("src/a.py"), limit=99) == "a = 1\n"
    with pytest.raises(Refused, match="paths") as refused:
        read("/etc/hostname")
    assert refused.value.detail["decision"].refusal.value == "/etc/hostname"
    assert len(trace.ran) == 2
    assert decisions(bench, held) == [
        ("read", "allow", ""),
        ("read", "allow", ""),
        ("read", "refuse", "paths"),
    ]
    assert results(bench, held) == [True, True]
    assert read.__name__ == "read_file"
    assert read.__doc__ == "Read a file."


def test_the_name_is_the_functions(bench: Bench, held: Holder) -> None:
    """Without a name of its own a tool is called as its function is."""

    @guarded
    def shell(command: str) -> str:
        raise AssertionError(command)

    with pytest.raises(Refused, match="`shell` is not in tools"):
        shell("ls")
    assert decisions(bench, held) == [("shell", "refuse", "tools")]


def test_defaults_count(held: Holder) -> None:
    """A default that leads outside is judged like an argument that does."""

    @guarded(tool="read")
    def read(path: str = "/etc/hostname") -> str:
        raise AssertionError(path)

    with pytest.raises(Refused, match="paths"):
        read()


def test_what_was_decided_is_what_runs(bench: Bench, held: Holder) -> None:
    """The function gets copies: a list that changes after the decision changes nothing."""
    kept: list[list[str]] = []

    @guarded(tool="stream")
    def every(paths: list[str]) -> int:
        asked.append("/etc/hostname")
        kept.append(paths)
        return len(paths)

    asked = ["src/a.py"]
    assert every(asked) == 1
    assert kept == [["src/a.py"]]


class Sly(str):
    """A text that is another to whoever asks by another way."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value", [Sly("src/a.py"), b"src/a.py", object(), {"a": {1: 2}}, [PurePosixPath, "x"], 1j]
)
def test_what_json_cannot_tell_is_refused(bench: Bench, held: Holder, value: object) -> None:
    """An argument that cannot be decided is refused by name, recorded, and nothing runs."""
    trace = Trace()
    with pytest.raises(Refused, match="argument `path` of `read`") as refused:
        reader(trace)(value)
    assert refused.value.detail["caveat"] == "call"
    assert trace.ran == []
    assert decisions(bench, held) == [("read", "refuse", "call")]


def test_deep_arguments_are_refused(held: Holder) -> None:
    """What is nested without end, or deeper than a call may be, is refused in words."""
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(Refused, match=f"deeper than {MAX_ARGUMENT_DEPTH} levels"):
        reader(Trace())(endless)


def test_parameters_may_be_left_out(bench: Bench, held: Holder) -> None:
    """What the model does not choose is not decided: a method's self, a context."""

    class Store:
        @guarded(tool="read", leave_out=("self", "context"))
        def read(self, path: str, context: object) -> tuple[object, object]:
            return self, context

    store, context = Store(), object()
    assert store.read("src/a.py", context) == (store, context)
    with pytest.raises(InputError, match=r"has no parameter `ctx`.* it has: path"):
        guarded(leave_out=("ctx",))(lambda path: path)


def test_more_names_are_told_by_their_own(held: Holder) -> None:
    """Further named arguments are decided as such, and none may hide another of its name."""

    @guarded(tool="read")
    def read(path: str, /, *rest: str, **more: str) -> tuple[str, tuple[str, ...], dict[str, str]]:
        return path, rest, more

    assert read("src/a.py", "src/b.py", other="src/c.py") == (
        "src/a.py",
        ("src/b.py",),
        {"other": "src/c.py"},
    )
    with pytest.raises(Refused, match="paths"):
        read("src/a.py", other="/etc/hostname")
    with pytest.raises(Refused, match="`path` of `read` is given twice"):
        read("/etc/hostname", path="src/a.py")
    with pytest.raises(TypeError, match="missing a required argument"):
        read()


def test_relative_paths_start_where_the_function_would(
    held: Holder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process's current folder counts; where it is gone, nothing is allowed."""
    trace = Trace()
    gone = tmp_path / "gone" / "src"
    gone.mkdir(parents=True)
    monkeypatch.chdir(gone.parent)
    with pytest.raises(Refused, match="paths"):
        reader(trace)("src/a.py")
    gone.rmdir()
    gone.parent.rmdir()
    with pytest.raises(Refused, match="cwd"):
        reader(trace)("src/a.py")
    assert trace.ran == []


def test_an_error_is_recorded_and_raised(bench: Bench, held: Holder) -> None:
    """A tool that fails fails as it would, and its call has ended badly."""
    with pytest.raises(FileNotFoundError):
        reader(Trace())("src/none.py")
    assert results(bench, held) == [False]


def test_without_a_session_nothing_runs() -> None:
    """Code that no block surrounds has no ticket."""
    trace = Trace()
    with pytest.raises(InputError, match="no session is open"):
        reader(trace)("x")
    assert trace.ran == []


def test_what_has_no_signature_is_no_tool() -> None:
    """Without names of arguments there is nothing to decide."""
    with pytest.raises(InputError, match="no signature"):
        guarded(type("x", (), {"__call__": 3})())
    with pytest.raises(InputError, match="a tool has a name"):
        guarded(type("x", (), {"__call__": lambda self: None})())


def test_coroutines(bench: Bench, held: Holder) -> None:
    """An async tool stays one; calls at once share the budget to the last."""

    @guarded
    async def note(text: str) -> str:
        await asyncio.sleep(0)
        return text

    async def many() -> list[Any]:
        return await asyncio.gather(*[note(str(n)) for n in range(5)], return_exceptions=True)

    assert inspect.iscoroutinefunction(note)
    done = asyncio.run(many())
    assert sum(isinstance(one, str) for one in done) == 3
    assert [one.detail["decision"].refusal.caveat for one in done if isinstance(one, Refused)] == [
        "calls",
        "calls",
    ]
    assert results(bench, held) == [True] * 3


def test_a_cancelled_call_has_not_ended_well(bench: Bench, held: Holder) -> None:
    """A task that is cancelled inside its tool leaves a call that ended badly."""
    begun = asyncio.Event()

    @guarded
    async def note(text: str) -> str:
        begun.set()
        await asyncio.sleep(60)
        return text

    async def cancelled() -> None:
        task = asyncio.create_task(note("x"))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert results(bench, held) == [False]


def test_streams(bench: Bench, held: Holder) -> None:
    """Generators, sync and async, are decided before their first item and stay generators."""

    @guarded(tool="stream")
    def counted(path: str) -> Iterator[int]:
        yield 1
        yield 2

    @guarded(tool="stream")
    async def later(path: str) -> AsyncIterator[int]:
        yield 1
        yield 2

    async def first() -> list[int]:
        async for item in later("src/a.py"):
            return [item]
        return []

    assert inspect.isgeneratorfunction(counted)
    assert inspect.isasyncgenfunction(later)
    assert list(counted("src/a.py")) == [1, 2]
    with pytest.raises(Refused, match="paths"):
        next(iter(counted("/etc")))
    assert asyncio.run(first()) == [1]
    assert results(bench, held) == [True, False]  # the second was left before its end
