"""
A plain function as a tool: decided before it runs, recorded when it ends.

Decided here: how a call's arguments become the JSON that is decided, and that what was decided
is what runs: the function gets copies, which nobody else can change in between. Not decided
here: what passes (``broker.authorize``), and which ticket applies (``broker.frameworks.holding``).

Rules a maintainer keeps: the function does not run before the decision, and not at all after a
refusal; an argument that cannot be told in JSON is refused, never left out unasked; a decision
that is waited for in vain (a cancelled task) runs nothing.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import aclosing
from dataclasses import dataclass
from functools import wraps
from typing import Final, ParamSpec, TypeVar, cast, overload

from broker.errors import InputError
from broker.frameworks.calling import Begun, NotPlain, decide, not_read, plain
from broker.frameworks.holding import current

P = ParamSpec("P")
R = TypeVar("R")

_CALL_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class _Tool:
    """A function, and how its calls are told."""

    function: Callable[..., object]
    signature: inspect.Signature
    name: str
    server: str | None
    left_out: frozenset[str]

    def start(self, args: tuple[object, ...], kwargs: dict[str, object]) -> _Running:
        """
        Have a call decided.

        Raises:
            Refused: it may not run.
            InputError: no session is open here.
            TypeError: the function takes no such arguments.
        """
        found = self.signature.bind(*args, **kwargs)
        found.apply_defaults()
        held, call_id = current(), os.urandom(_CALL_BYTES).hex()
        try:
            told = self._told(found)
        except NotPlain as error:
            raise not_read(
                held, self.name, str(error), call_id=call_id, server=self.server
            ) from None
        decide(held, self.name, told, call_id=call_id, server=self.server)
        return _Running(self.function, found, Begun(held, told, call_id))

    def _told(self, found: inspect.BoundArguments) -> dict[str, object]:
        """Return the arguments as JSON to decide, and put copies in their place to run with."""
        told: dict[str, object] = {}
        for name, value in found.arguments.items():
            if name in self.left_out:
                continue
            try:
                json, copied = plain(value)
            except NotPlain as error:
                raise NotPlain(f"argument `{name}` of `{self.name}`: {error}") from None
            found.arguments[name] = copied
            more = self.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            for key, item in cast(dict[str, object], json).items() if more else [(name, json)]:
                if key in told:  # beside a parameter that takes no name
                    raise NotPlain(f"argument `{key}` of `{self.name}` is given twice")
                told[key] = item
        return told


@dataclass(slots=True)
class _Running:
    """A call that was allowed, as a block around what it does: at its end, the end is recorded."""

    function: Callable[..., object]
    found: inspect.BoundArguments
    begun: Begun
    output: object = None

    def begin(self) -> object:
        """Call the function, with what was decided."""
        return self.function(*self.found.args, **self.found.kwargs)

    def __enter__(self) -> _Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.begun.end(ok=kind is None, output=self.output)


class _Aside:
    """The same block for a task: what waits for the disk waits in a thread."""

    def __init__(self, tool: _Tool, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        self._asked = tool, args, kwargs
        self._running: _Running | None = None

    async def __aenter__(self) -> _Running:
        from asyncio import to_thread  # noqa: PLC0415 - loaded already where it is needed

        tool, args, kwargs = self._asked
        self._running = await to_thread(tool.start, args, kwargs)
        return self._running

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        from asyncio import to_thread  # noqa: PLC0415 - as above

        if self._running is not None:
            await to_thread(self._running.__exit__, kind, *rest)


@overload
def guarded(function: Callable[P, R], /) -> Callable[P, R]: ...


@overload
def guarded(
    *, tool: str | None = ..., server: str | None = ..., leave_out: tuple[str, ...] = ...
) -> Callable[[Callable[P, R]], Callable[P, R]]: ...


def guarded(
    function: Callable[..., object] | None = None,
    /,
    *,
    tool: str | None = None,
    server: str | None = None,
    leave_out: tuple[str, ...] = (),
) -> Callable[..., object]:
    """
    Have each call of a function decided under the ticket of the block that surrounds the call.

    Functions, coroutine functions, generators and async generators stay what they are. What is
    decided are the arguments by their names, defaults included: JSON values, tuples and paths.

    Args:
        tool: the tool's name in scopes and catalogs; the function's name by default.
        server: the MCP server that answers, where the function stands for one's tool.
        leave_out: parameters that are not the model's to choose, such as ``self`` or a context.

    Raises:
        InputError: a parameter to leave out that the function has not, or something that has no
            signature. At a call: no session is open.
        Refused: at a call: it may not run; ``detail["decision"]`` is the decision, if it came so
            far, and the message is meant for the model.

    >>> @guarded(tool="read")
    ... def read_file(path: str) -> str:
    ...     return "text of " + path
    >>> read_file("a.py")
    Traceback (most recent call last):
    broker.errors.InputError: no session is open here: ...
    """
    if function is None:
        return lambda found: _wrapped(found, tool, server, leave_out)
    return _wrapped(function, tool, server, leave_out)


def _wrapped(
    function: Callable[..., object],
    tool: str | None,
    server: str | None,
    leave_out: tuple[str, ...],
) -> Callable[..., object]:
    name = getattr(function, "__name__", "")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        raise InputError(f"`{name or function!r}` has no signature to tell its calls by") from None
    unknown = set(leave_out) - signature.parameters.keys()
    if unknown:
        has = ", ".join(signature.parameters) or "none"
        raise InputError(f"`{name}` has no parameter `{min(unknown)}` to leave out; it has: {has}")
    made = _Tool(function, signature, tool or name, server, frozenset(leave_out))
    if not made.name:
        raise InputError("a tool has a name: say `@guarded(tool=…)`")
    if inspect.isasyncgenfunction(function):
        return wraps(function)(_async_generator(made))
    if inspect.isgeneratorfunction(function):
        return wraps(function)(_generator(made))
    if inspect.iscoroutinefunction(function):
        return wraps(function)(_coroutine(made))
    return wraps(function)(_function(made))


def _function(tool: _Tool) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> object:
        with tool.start(args, kwargs) as running:
            running.output = running.begin()
        return running.output

    return call


def _generator(tool: _Tool) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> Generator[object, object, object]:
        with tool.start(args, kwargs) as running:
            return (yield from cast(Generator[object, object, object], running.begin()))

    return call


# A decision waits for the disk, which a loop must not. A task that is cancelled meanwhile leaves a
# decision without a call; the other way round cannot be.


def _coroutine(tool: _Tool) -> Callable[..., object]:
    async def call(*args: object, **kwargs: object) -> object:
        async with _Aside(tool, args, kwargs) as running:
            running.output = await cast(Awaitable[object], running.begin())
        return running.output

    return call


def _async_generator(tool: _Tool) -> Callable[..., object]:
    async def call(*args: object, **kwargs: object) -> AsyncGenerator[object, None]:
        async with _Aside(tool, args, kwargs) as running:
            inner = cast(AsyncGenerator[object, None], running.begin())
            async with aclosing(inner) as items:
                async for item in items:
                    yield item

    return call
