"""
How the commands speak: answers on stdout, diagnostics on stderr, colour only on a terminal.

Decided here: what may reach a terminal. Text that an agent, a file or a receipt supplied could
move the cursor, turn the reading direction or hide itself, so it goes through ``printable``
first. Nothing here decides or verifies anything.

A rule a maintainer keeps: every character that leaves goes through this module, so that a
closed pipe, a lone surrogate and a missing stdout are handled in one place.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, TextIO

from broker.cli.exits import UNDECIDED
from broker.errors import BrokerError, PolicyError, ScopeError

if TYPE_CHECKING:
    from broker.calls import Decision
    from broker.caveats import Caveat

_COLOURS: Final = {"green": "32", "red": "31", "yellow": "33", "dim": "2", "bold": "1"}
_MOST_CHARS: Final = 2_000  # of a reason on a terminal; JSON has all of it
# Letters and marks that Unicode calls printable and that nobody can see.
_BLANK: Final = frozenset("\u115f\u1160\u2800\u3164\uffa0\u034f\u17b4\u17b5")


def printable(text: str) -> str:
    """
    Return ``text`` on one line, with everything that could hide or deceive escaped.

    Controls, direction marks, zero-width characters, line separators, lone surrogates and
    unusual blanks become ``\\x1b`` or ``\\u202e``.

    >>> print(printable("a\\u202eb\\n"))
    a\\u202eb\\n
    """
    if text.isprintable() and (text.isascii() or not any(_deceives(c) for c in text)):
        return text
    return "".join(
        c if c.isprintable() and not _deceives(c) else c.encode("unicode_escape").decode()
        for c in text
    )


def _deceives(char: str) -> bool:
    return char in _BLANK or "\U000e0100" <= char <= "\U000e01ef"


def prepare() -> None:
    """Make both streams take any text; a stream that the caller closed becomes an empty one."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def out(text: str = "") -> None:
    """Write one line of the answer."""
    _write(sys.stdout, text + "\n")


def err(text: str) -> None:
    """Write one line of diagnosis."""
    _write(sys.stderr, text + "\n")


def passing(text: str) -> None:
    """Show a line on a terminal's stderr that the next one takes the place of."""
    _write(sys.stderr, f"\r\x1b[K{text}")
    sys.stderr.flush()


def raw_out(content: bytes) -> None:
    """Write an answer that is a file: its bytes, whatever the terminal's encoding."""
    sys.stdout.flush()
    try:
        sys.stdout.buffer.write(content)
    except OSError as error:
        _unwritable(sys.stdout, error)


def json_out(document: object) -> None:
    """Write one JSON document on one line, in ASCII, so that lone surrogates survive."""
    import json

    out(json.dumps(document, ensure_ascii=True))


def flush() -> None:
    """Hand everything written so far to whoever reads it."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError as error:
            _unwritable(stream, error)


def settle() -> bool:
    """
    Leave nothing that Python would try to write at exit; return whether all of it was written.

    A library's own ``echo`` may have failed half-way, and what it left in a buffer would fail
    once more, with an exit code that means nothing here.
    """
    written = True
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            _sink(stream)
            written = False
    return written


def paint(text: str, colour: str, stream: TextIO | None = None) -> str:
    """Return ``text`` in a colour when ``stream`` (stdout) is a terminal that wants it."""
    if not _coloured(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def _coloured(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def decision_line(decision: Decision) -> str:
    """
    Return a decision as the one line that a person reads.

    >>> from broker.calls import ALLOW, Decision, Refusal
    >>> decision_line(ALLOW)
    'allowed'
    >>> decision_line(Decision(Refusal("calls", "2", "the budget of 2 calls is used up")))
    'refused (calls): the budget of 2 calls is used up'
    """
    refusal = decision.refusal
    if refusal is not None:
        head = paint(f"refused ({refusal.caveat}):", "red")
        return f"{head} {printable(_shortened(refusal.reason))}"
    seen = "" if decision.enforcement == "gate" else f" (enforcement: {decision.enforcement})"
    return paint("allowed", "green") + seen


def _shortened(text: str) -> str:
    """Return text that fits a few lines of a terminal: a path in it may be very long."""
    if len(text) <= _MOST_CHARS:
        return text
    return f"{text[: _MOST_CHARS // 2]} … {text[-_MOST_CHARS // 2 :]}"


def decision_document(decision: Decision) -> dict[str, object]:
    """Return a decision as JSON data: always the same five keys."""
    refusal = decision.refusal
    return {
        "decision": "allow" if refusal is None else "refuse",
        "caveat": None if refusal is None else refusal.caveat,
        "value": None if refusal is None else refusal.value,
        "reason": None if refusal is None else refusal.reason,
        "enforcement": decision.enforcement,
    }


def error_document(error: BrokerError) -> dict[str, object]:
    """
    Return an error as JSON data, on one line: here is no room for a caret.

    >>> from broker.errors import ScopeError
    >>> error_document(ScopeError("no such key `p`", text="p=x", hint="paths"))["reason"]
    'no such key `p`, at character 0 of `p=x` (paths)'
    """
    if not isinstance(error, ScopeError):
        caveat = "scope" if isinstance(error, PolicyError) else None
        return {"decision": "error", "caveat": caveat, "reason": error.message}
    where = f"{error.where}: " if error.where else ""
    place = f", at character {error.offset} of `{error.text[:80]}`" if error.text else ""
    hint = f" ({error.hint})" if error.hint else ""
    reason = f"{where}{error.message}{place}{hint}"
    return {"decision": "error", "caveat": "scope", "reason": reason}


def caveat_document(caveat: Caveat) -> dict[str, object]:
    """
    Return a caveat as JSON data; an instant as text, since not every reader is exact there.

    >>> from broker.caveats import until
    >>> caveat_document(until(0))
    {'kind': 'until', 'value': '1970-01-01T00:00:00Z'}
    """
    value: object = caveat.value
    if isinstance(caveat.value, tuple):
        value = [str(item) for item in caveat.value]  # a rule as it is typed
    if caveat.kind == "until" and isinstance(caveat.value, int):
        from broker.instants import format_instant

        value = format_instant(caveat.value)
    return {"kind": caveat.kind, "value": value}


def table(rows: Iterable[Sequence[str]], heads: Sequence[str]) -> list[str]:
    """
    Return rows under their heads as aligned lines; the last column takes what it needs.

    >>> table([("a", "1"), ("bcd", "2")], ("name", "n"))
    ['name  n', 'a     1', 'bcd   2']
    """
    body = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[i]) for line in (list(heads), *body)) for i in range(len(heads))]
    return [
        "  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip()
        for line in (list(heads), *body)
    ]


def _write(stream: TextIO, text: str) -> None:
    try:
        stream.write(text)
    except OSError as error:
        _unwritable(stream, error)


def _sink(stream: TextIO) -> None:
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, stream.fileno())
    os.close(sink)


def _unwritable(stream: TextIO, error: OSError) -> None:
    """
    Go on without a diagnosis that nobody can read, but never without an answer.

    Where nobody listens any more this leaves quietly, and any other fault is the caller's to
    tell. The stream becomes a sink, since Python would complain once again at exit.
    """
    _sink(stream)
    if isinstance(error, BrokenPipeError):
        raise SystemExit(UNDECIDED)
    if stream is not sys.stderr:
        raise OSError(error.errno, error.strerror, "standard output") from error
