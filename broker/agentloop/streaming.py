"""
A run on a person's terminal, as it comes.

Decided here: that what the model says goes where results go, word by word, and that calls and what
became of them go where errors go, so that the words alone can be kept. Not decided here: how a call
is spelled (``broker.harness.show``).

A rule a maintainer keeps: whatever a model or a tool wrote is shown without control characters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from broker.harness.outcome import Called, Ended, Said
from broker.harness.script import MAIN
from broker.harness.show import ended_lines, plain


@dataclass(slots=True)
class Streamed:
    """
    What is shown of a run.

    Args:
        write: shows text where results go.
        write_error: shows text where errors go.

    >>> seen = []
    >>> shown = Streamed(seen.append, seen.append)
    >>> shown.tell("main", "one"); shown.tell("main", " two"); shown.watch(Said("main", "one two"))
    >>> "".join(seen)
    'one two\\n'
    """

    write: Callable[[str], object]
    write_error: Callable[[str], object]
    _speaking: str = field(default="")
    _at_start: bool = field(default=True)

    def tell(self, actor: str, text: str) -> None:
        """Show text of an agent as it comes."""
        if actor != self._speaking:
            self.end()
            self._speaking = actor
        lines = text.split("\n")
        for n, line in enumerate(lines):
            if n:
                self.write("\n")
                self._at_start = True
            if line:
                name = f"{actor}: " if self._at_start and actor != MAIN else ""
                self.write(name + plain(line.replace("\t", "    ")))
                self._at_start = False

    def end(self) -> None:
        """End the line that is being written, if one is."""
        if not self._at_start:
            self.write("\n")
        self._at_start, self._speaking = True, ""

    def watch(self, event: Said | Called | Ended) -> None:
        """Show what becomes of calls; what was said has been shown already."""
        self.end()
        if isinstance(event, Ended):
            for line in ended_lines(event):
                self.write_error(f"{line}\n")
