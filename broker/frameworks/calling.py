"""
One tool call of a framework: what each adapter asks before the tool runs, and tells at its end.

Decided here: how the arguments that a model wrote become the JSON that is decided; that exactly
this JSON runs; that whatever breaks on the way is a refusal; what the model reads of it; and
whose ticket a delegate works under. Not decided here: what passes (``broker.authorize``), and
where a framework lets a call be stopped (each adapter).

Rules a maintainer keeps: no tool runs before ``begin`` has returned, nor with other arguments
than ``Begun.arguments``; what cannot be read in one way only is refused, and recorded; a task
that is cancelled while it waits for a decision runs nothing; a definition's own list of tools
narrows, and never fails for what its caller does not hold.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from math import isinf
from pathlib import PurePath
from typing import Final, cast

from broker.authorize import ASK, enforce
from broker.boundary import contained
from broker.calls import Decision, Refusal
from broker.errors import InputError, Refused, StoreError
from broker.frameworks.holding import Holder, current
from broker.limits import MAX_ARGUMENT_DEPTH, MAX_ARGUMENT_VALUES, MAX_REQUEST_BYTES

_CALL_BYTES: Final = 8
_NAME: Final = re.compile(r"[\w./:-]+")
_SCALARS: Final = (str, int, float, bool, type(None))


class NotPlain(Exception):
    """A value that JSON has no word for, or a text that is no JSON; its text says which."""


@dataclass(slots=True)
class Begun:
    """
    A call that was allowed, as a block around what it does: at its end, the end is recorded.

    ``arguments`` are what was decided, and shared with nobody: these run. ``output`` is set by
    whoever runs the tool; only its digest is kept. ``ok`` is set to False where the framework tells
    of a failure in another way than by an error. Use it in ``with`` or ``async with``, once.
    """

    held: Holder
    arguments: dict[str, object]
    call_id: str
    output: object = None
    ok: bool = True
    _over: bool = field(default=False, repr=False)

    @property
    def text(self) -> str:
        """The arguments as JSON, for a framework that hands a tool the text."""
        return json.dumps(self.arguments, separators=(",", ":"))

    def end(self, *, ok: bool, output: object = None) -> None:
        """Record how the call ended; what comes after the first time is not heard."""
        if self._over:
            return
        self._over = True
        try:
            told = plain(output)[0]
        except NotPlain:
            told = None
        # Where it cannot be recorded the session allows nothing any more.
        with suppress(StoreError):
            self.held.result(self.call_id, ok=ok, output=told)

    def __enter__(self) -> Begun:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.end(ok=self.ok and kind is None, output=self.output)

    async def __aenter__(self) -> Begun:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        from asyncio import to_thread  # noqa: PLC0415 - loaded already where it is needed

        await to_thread(self.__exit__, kind)


def begin(
    tool: str,
    arguments: object,
    *,
    held: Holder | None = None,
    call_id: str = "",
    server: str | None = None,
    cwd: str | None = None,
) -> Begun:
    """
    Have a call decided, before its tool runs.

    Args:
        tool: the tool's name, as scopes and catalogs spell it.
        arguments: the JSON that the model wrote, as text or bytes, or a mapping of JSON values.
        held: the ticket it is decided under; by default that of the block around this code.
        call_id: the framework's own name for the call, if it has one.
        server: the MCP server that answers, as the caller's own configuration spells it.
        cwd: the folder that relative paths start from; the process's own by default.

    Returns:
        The call, whose ``arguments`` are what is to run.

    Raises:
        Refused: it may not run; the message is meant for the model, and ``detail["decision"]``
            is the decision.
        InputError: no session is open here.

    >>> begin("read", '{"path": "src/a.py"}')
    Traceback (most recent call last):
    broker.errors.InputError: no session is open here: ...
    """
    held = held or current()
    call_id = call_id or os.urandom(_CALL_BYTES).hex()
    told: object
    try:
        told, arguments = _read(arguments)
    except NotPlain as error:
        reason = f"the arguments of `{tool}` cannot be read: {error}"
        raise not_read(held, tool, reason, call_id=call_id, server=server) from None
    decide(held, tool, told, call_id=call_id, server=server, cwd=cwd)
    return Begun(held, arguments, call_id)


async def abegin(
    tool: str,
    arguments: object,
    *,
    held: Holder | None = None,
    call_id: str = "",
    server: str | None = None,
    cwd: str | None = None,
) -> Begun:
    """
    Do what ``begin`` does, for a task: what waits for the disk waits in a thread.

    The arguments are copied before it waits, so that nobody changes them meanwhile. A task that
    is cancelled while it waits leaves a decision without a call.

    Raises:
        Refused, InputError: as ``begin`` does.
    """
    from asyncio import to_thread  # noqa: PLC0415 - loaded already where it is needed

    held = held or current()
    if isinstance(arguments, Mapping):
        with suppress(NotPlain):  # which `begin` meets again, and refuses
            arguments = _read(arguments)[0]
    return await to_thread(
        begin, tool, arguments, held=held, call_id=call_id, server=server, cwd=cwd
    )


def decide(
    held: Holder,
    tool: str,
    told: object,
    *,
    call_id: str,
    server: str | None = None,
    cwd: str | None = None,
) -> Decision:
    """
    Return the decision that allows a call; whatever breaks is a refusal.

    Raises:
        Refused: it may not run.
    """
    if cwd is None:
        try:
            cwd = os.getcwd()
        except OSError:
            cwd = ""  # the folder is gone: refused, and recorded

    def broken(error: Exception) -> Decision:
        why = f"the call could not be decided ({type(error).__name__}: {error}); {ASK}"
        # Asked once more with what is no object, so that the refusal is recorded.
        contained(lambda: held.check(tool, why, call_id=call_id), lambda _: None)
        return Decision(Refusal("session", "", why))

    decision = contained(
        lambda: held.check(tool, told, call_id=call_id, server=server, cwd=cwd), broken
    )
    enforce(decision)
    return decision


def not_read(
    held: Holder, tool: str, reason: str, *, call_id: str, server: str | None = None
) -> Refused:
    """Return the refusal of a call that nobody can read, and have it recorded."""
    # Asked all the same, with what is no object, so that the refusal is recorded.
    contained(
        lambda: held.check(tool, reason, call_id=call_id, server=server),
        lambda error: Decision(Refusal("session", "", str(error))),
    )
    why = f"{reason}; {ASK}"
    return Refused(why, caveat="call", decision=Decision(Refusal("call", "", why)))


def refusal_text(error: Refused) -> str:
    """
    Return what the model reads in place of a result.

    >>> no = Decision(Refusal("tools", "shell", "tool `shell` is not in tools: read"))
    >>> refusal_text(Refused(no.refusal.reason, decision=no))
    'refused (tools): tool `shell` is not in tools: read'
    """
    decision = error.detail.get("decision")
    refusal = decision.refusal if isinstance(decision, Decision) else None
    return f"refused: {error}" if refusal is None else f"refused ({refusal.caveat}): {error}"


def sdk_missing(extra: str) -> InputError:
    """
    Return the error of an adapter whose framework is not installed.

    >>> print(sdk_missing("langchain"))
    `langchain` is not installed: pip install 'capability-broker[langchain]'
    """
    return InputError(
        f"`{extra}` is not installed: pip install 'capability-broker[{extra}]'", code="input.extra"
    )


def plain(value: object) -> tuple[object, object]:
    """
    Return a value as JSON, and a copy that shares nothing with it that could be changed.

    Exact types only: a subclass of ``str`` may say one thing here and another to the tool.

    Raises:
        NotPlain: it is no JSON value and no path, nested deeper than MAX_ARGUMENT_DEPTH levels,
            or holds more than MAX_ARGUMENT_VALUES values.

    >>> plain({"path": PurePath("a.py"), "all": (1, 2)})[0]
    {'path': 'a.py', 'all': [1, 2]}
    """
    return _copied(value, MAX_ARGUMENT_DEPTH, [MAX_ARGUMENT_VALUES])


def _copied(value: object, depth: int, room: list[int]) -> tuple[object, object]:
    """Do ``plain``, where ``room`` counts the values that may still come."""
    kind = type(value)
    if kind in _SCALARS:
        return value, value
    if depth <= 1:
        raise NotPlain(f"it is nested deeper than {MAX_ARGUMENT_DEPTH} levels")
    if kind is list or kind is tuple or kind is dict:
        room[0] -= len(cast(list[object], value))
        if room[0] < 0:
            raise NotPlain(f"it holds more than {MAX_ARGUMENT_VALUES} values: split the call")
    if kind is list or kind is tuple:
        pairs = [_copied(item, depth - 1, room) for item in cast(list[object], value)]
        copies = [copy for _, copy in pairs]
        return [told for told, _ in pairs], copies if kind is list else tuple(copies)
    if kind is dict:
        told, copied = {}, {}
        for key, item in cast(dict[object, object], value).items():
            if type(key) is not str:
                raise NotPlain("an object in it has a name that is no text")
            told[key], copied[key] = _copied(item, depth - 1, room)
        return told, copied
    if isinstance(value, PurePath) and kind.__module__.partition(".")[0] == "pathlib":
        return os.fspath(value), value
    raise NotPlain(f"a `{kind.__name__}` is no JSON value and no path")


def child(
    held: Holder, name: str, texts: Sequence[str] = (), *, tools: Sequence[str] | None = None
) -> Holder:
    """
    Return what a subagent or the receiver of a handoff works under: narrower, on the same budget.

    The same name gets the same ticket from the same holder, so that a handoff back and forth does
    not make a new one each time.

    Args:
        held: what the one who delegates works under.
        name: the delegate's name, for the receipt.
        texts: the caveats to add, as ``KEY=VALUE`` texts.
        tools: the tools that the delegate's own definition lists; it holds no others.

    Raises:
        AttenuationError: a text would permit more; ``kind`` names the caveat.
        ScopeError: a text is malformed.
        StoreError: it cannot be recorded, or the session cannot be asked.
    """
    return held.delegate(*(() if tools is None else _listed(held, tools)), *texts, name=name)


def _listed(held: Holder, names: Sequence[str]) -> tuple[str, ...]:
    """Return a definition's tools as a text, as far as its caller holds them."""
    from broker.agents.children import within  # noqa: PLC0415 - only who delegates needs it
    from broker.agents.definitions import Listing  # noqa: PLC0415
    from broker.scope import render  # noqa: PLC0415

    # A name that a pattern could be read into is left out, which only narrows.
    own = within(held.bounds(), Listing(tuple(filter(_NAME.fullmatch, names))))
    return () if own is None else tuple(render([own]))


def _read(arguments: object) -> tuple[object, dict[str, object]]:
    """Return arguments as the JSON to decide, and a copy to run with."""
    if arguments is None:
        return {}, {}
    if type(arguments) is str or type(arguments) is bytes:
        arguments = _parsed(arguments)
    elif isinstance(arguments, Mapping):
        arguments = dict(arguments)
    told, copied = plain(arguments)
    if type(copied) is not dict:
        raise NotPlain("they are no JSON object")
    return told, copied


def _parsed(text: str | bytes) -> object:
    if len(text) > MAX_REQUEST_BYTES:
        raise NotPlain(f"they are longer than {MAX_REQUEST_BYTES} bytes: split the call")
    try:
        written = text.decode() if isinstance(text, bytes) else text
        if not written.strip():
            return {}  # so do models write a call that takes none
        return json.loads(
            written, object_pairs_hook=_once, parse_float=_finite, parse_constant=_no_constant
        )
    except RecursionError:
        raise NotPlain(f"they are nested deeper than {MAX_ARGUMENT_DEPTH} levels") from None
    except ValueError as error:
        raise NotPlain(f"they are no JSON: {error}") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise NotPlain("a name stands twice in one object")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise NotPlain(f"{text[:40]} is too large a number")
    return number


def _no_constant(name: str) -> object:
    raise NotPlain(f"{name} is not a number of JSON")
