"""
Where a fork begins.

Decided here: that a fork begins at a checkpoint of the run, as the format names them, and that a
run without a snapshot can still be forked where its conversation is complete. Not decided here:
what a checkpoint is (``broker.trace.graph``), how a fork is played (``broker.replay.exact``).
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.errors import InputError
from broker.trace.graph import checkpoints, snap
from broker.trace.reader import RunReader


@dataclass(frozen=True, slots=True)
class Fork:
    """
    A fork: up to which event the recording answers, and the model that is asked from there on.

    ``asked`` is the event that was named, ``note`` what a person has to know of the point. An empty
    ``model`` is whichever the agent asks.
    """

    point: int
    asked: int
    model: str = ""
    note: str = ""

    def __str__(self) -> str:
        """In words, for the person."""
        moved = "" if self.point == self.asked else f" (the checkpoint before {self.asked})"
        onto = f", then live on {self.model}" if self.model else ", then live"
        return f"from the recording up to event {self.point}{moved}{onto}{self.note}"


def fork_at(reader: RunReader, asked: int, model: str = "") -> Fork:
    """
    Return where a fork from an event begins: at the last checkpoint that is not after it.

    Args:
        reader: the run.
        asked: the number of an event.
        model: the name of another model.

    Raises:
        InputError: there is no checkpoint at the event or before it.
        TraceError: the run cannot be read.
    """
    events = reader.events()
    found = checkpoints(events)
    if found:
        return Fork(snap(found, asked)[0].seq, asked, model)
    # Without a snapshot nothing of the workspace is there to begin from, but what was said is.
    answered = [event.seq for event in events if event.type == "model.response"]
    before = [seq for seq in answered if seq <= asked]
    if not before:
        raise InputError(
            f"no fork can begin at {asked}: "
            + (f"the first answer is event {answered[0]}" if answered else "no model answered")
        )
    note = "; the run recorded no snapshot, so the workspace begins empty"
    return Fork(before[-1], asked, model, note)
