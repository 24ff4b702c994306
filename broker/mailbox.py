"""
Questions and answers of a running session as files in its folder, for `broker answer`.

Decided here: their form, and that each is authenticated with the installation's key, which no tool
can read: whoever can answer here could sign receipts as well. Not decided here: what a question
says and what an answer does (``broker.sessions.asking``), who may type one (``broker.cli.answer``).

Rules a maintainer keeps: a file of another session, or one that was changed, is none; an answer is
taken once, and its question goes with it; nothing here is a record, the receipt is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hmac import compare_digest
from pathlib import Path
from typing import Final

from broker.errors import StoreError
from broker.limits import MAX_INTENT_CHARS
from broker.receipt import disk
from broker.receipt.keys import Key, sign

QUESTIONS: Final = "questions"
ANSWERS: Final = "answers"
_MAX_BYTES: Final = 4 * 2**20  # of one file
_TAG_CHARS: Final = 64


@dataclass(frozen=True, slots=True)
class Posted:
    """A question that waits: its number, its code, who runs the session, and its lines."""

    number: int
    code: str
    pid: int
    lines: tuple[str, ...]


class Mailbox:
    """
    The questions and answers of one session.

    Args:
        folder: the session's own.
        sid: its name.
        key: the installation's.
    """

    def __init__(self, folder: Path, sid: str, key: Key) -> None:
        self._folder, self._sid, self._key = folder, sid, key

    def post(self, posted: Posted) -> None:
        """
        Show a question to whoever asks for it.

        Raises:
            StoreError: it cannot be written.
        """
        body = {
            "number": posted.number,
            "code": posted.code,
            "pid": posted.pid,
            "lines": list(posted.lines),
        }
        self._write(QUESTIONS, str(posted.number), body)

    def posted(self) -> Iterator[Posted]:
        """Yield the questions that are shown, in their order."""
        for body in self._bodies(QUESTIONS):
            lines = body.get("lines")
            number, code, pid = body.get("number"), body.get("code"), body.get("pid")
            if (
                isinstance(number, int)
                and isinstance(code, str)
                and isinstance(pid, int)
                and isinstance(lines, list)
            ):
                yield Posted(number, code, pid, tuple(str(line) for line in lines))

    def withdraw(self, number: int) -> None:
        """Show a question no more."""
        with suppress(OSError):
            (self._folder / QUESTIONS / str(number)).unlink(missing_ok=True)

    def waits(self, number: int) -> bool:
        """Whether a question is still shown."""
        return (self._folder / QUESTIONS / str(number)).exists()

    def answer(self, number: int, line: str) -> None:
        """
        Hand in what a person typed.

        Raises:
            StoreError: it cannot be written.
        """
        self._write(ANSWERS, str(number), {"number": number, "line": line[:MAX_INTENT_CHARS]})

    def answers(self) -> Iterator[str]:
        """Yield the lines that were handed in, each once."""
        for body in list(self._bodies(ANSWERS)):
            number, line = body.get("number"), body.get("line")
            with suppress(OSError):
                (self._folder / ANSWERS / str(number)).unlink()
                if isinstance(line, str):
                    yield line

    # ── files ──

    def _write(self, kind: str, name: str, body: Mapping[str, object]) -> None:
        text = json.dumps({**body, "sid": self._sid}).encode()
        folder = self._folder / kind
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            disk.DISK.replace(folder / name, self._tag(kind, text) + text)
        except OSError as error:
            raise StoreError(f"`{folder / name}` cannot be written: {error.strerror}") from error

    def _bodies(self, kind: str) -> Iterator[dict[str, object]]:
        try:
            names = sorted(filter(str.isdecimal, os.listdir(self._folder / kind)), key=int)
        except OSError:
            return
        for name in names:
            body = self._read(kind, self._folder / kind / name)
            if body is not None and body.get("sid") == self._sid and str(body["number"]) == name:
                yield body

    def _read(self, kind: str, path: Path) -> dict[str, object] | None:
        try:
            fd = os.open(path, os.O_RDONLY | disk.SAFELY)
        except OSError:
            return None
        with os.fdopen(fd, "rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        tag, text = content[:_TAG_CHARS], content[_TAG_CHARS:]
        if len(content) > _MAX_BYTES or not compare_digest(tag, self._tag(kind, text)):
            return None
        body = json.loads(text)
        return body if isinstance(body, dict) else None

    def _tag(self, kind: str, text: bytes) -> bytes:
        return sign(self._key.secret, f"ask/1 {kind}", text).encode()
