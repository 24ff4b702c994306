"""
Results that are too long for a model: kept in a file, with a reference in their place.

Decided here: how much a model sees, and that the rest is kept for the agent that asked and nobody
else, since a subagent may not read what its caller read. Not decided here: whether a model may
read the rest, which is a call like any other.

Rules a maintainer keeps: the files lie among the broker's own, which no tool reads; a reference
never becomes part of a path; where the rest cannot be kept, the model is told that it is lost.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

from broker.capabilities.fs import Folder
from broker.errors import CapabilityError
from broker.limits import MAX_RESULT_CHARS, MAX_SPILL_BYTES

_BEGINNING: Final = MAX_RESULT_CHARS * 4 // 5
_END: Final = MAX_RESULT_CHARS - _BEGINNING


class Spill:
    """
    The long results of one run.

    Args:
        folder: where they lie; made when the first one comes.
    """

    __slots__ = ("_folder",)

    def __init__(self, folder: Folder) -> None:
        self._folder = folder

    def shortened(self, actor: str, reference: str, text: str) -> tuple[str, str | None]:
        """Return what the model reads of a result, and the file that holds all of it, if any."""
        if len(text) <= MAX_RESULT_CHARS:
            return text, None
        missing = len(text) - MAX_RESULT_CHARS
        place = _place(actor, reference)
        why = self._kept(place, text.encode("utf-8", "surrogatepass"))
        if why:
            note = f"… {missing} more characters, which could not be kept: {why}"
            return f"{text[:_BEGINNING]}\n{note}\n{text[-_END:]}", None
        note = (
            f"… {missing} more characters; `recall` with result `{reference}` and a position "
            f"returns them, the first one left out is at {_BEGINNING}"
        )
        return f"{text[:_BEGINNING]}\n{note}\n{text[-_END:]}", place

    def _kept(self, place: str, content: bytes) -> str:
        """Keep a result; return why it could not be kept, or nothing."""
        if len(content) > MAX_SPILL_BYTES:
            return f"longer than {MAX_SPILL_BYTES} bytes"
        try:
            self._folder.make()
            self._folder.replace(place, content)
        except OSError as error:
            return (error.strerror or str(error)).lower()
        return ""

    def recall(self, actor: str, reference: str, position: int) -> str:
        """
        Return a part of a long result, as much as a model sees at once.

        Raises:
            CapabilityError: there is no such result of this agent (``capability.result``).
        """
        try:
            content = self._folder.read(_place(actor, reference), limit_bytes=MAX_SPILL_BYTES)
        except OSError as error:
            raise CapabilityError(
                f"there is no long result `{reference}` of yours", code="capability.result"
            ) from error
        text = content.decode("utf-8", "surrogatepass")
        part = text[max(0, position) :][:_BEGINNING]
        return f"{part}\n({len(part)} characters from {max(0, position)}, of {len(text)})"


def _place(actor: str, reference: str) -> str:
    key = f"{len(actor)}:{actor}:{reference}".encode("utf-8", "surrogatepass")
    return f"{sha256(key).hexdigest()}.txt"
