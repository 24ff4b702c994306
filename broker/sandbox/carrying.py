"""
Bytes between two sockets of the proxy: carried as they come, and counted.

Decided here: how long a connection may be made and may be silent, and what is told of one. Not
decided here: which are made (``broker.sandbox.egress``).

Rule a maintainer keeps: nothing here looks at what it carries.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

CONNECT_S: Final = 15.0  # until a server has answered
IDLE_S: Final = 900.0  # without a byte in either direction


@dataclass(frozen=True, slots=True)
class Egressed:
    """
    One connection, as it is told when it was judged, and when it is over.

    ``number`` tells it from others; ``refused`` is the reason why it was not made, or empty.
    ``url`` is empty for a tunnel, in which nothing is seen. Bytes and time are told when it has
    ``ended``.
    """

    number: int
    host: str
    port: int
    method: str
    url: str = ""
    refused: str = ""
    ended: bool = False
    sent_bytes: int = 0
    received_bytes: int = 0
    duration_ms: int = 0


Heard = Callable[[Egressed], None]


class Tally:
    """How many bytes went which way; of a plain request, those of its body and of its answer."""

    def __init__(self) -> None:
        self.sent = 0
        self.received = 0


def connected(places: list[str], port: int) -> socket.socket:
    """Connect to the first address that answers; no name is looked up any more."""
    last: OSError = OSError("no address")
    for place in places:
        family = socket.AF_INET6 if ":" in place else socket.AF_INET
        far = socket.socket(family, socket.SOCK_STREAM)
        far.settimeout(CONNECT_S)
        try:
            far.connect((place, port))
        except OSError as error:
            far.close()
            last = error
            continue
        far.settimeout(IDLE_S)
        return far
    raise last


def pump_both(near: socket.socket, far: socket.socket, tally: Tally) -> None:
    """Carry bytes both ways until both ends have said their last."""
    near.settimeout(IDLE_S)
    back = threading.Thread(target=pump_back, args=(near, far, tally), daemon=True)
    back.start()
    for size in _pump(near, far):
        tally.sent += size
    back.join()


def pump_back(near: socket.socket, far: socket.socket, tally: Tally) -> None:
    """Carry what the far end answers to its end."""
    for size in _pump(far, near):
        tally.received += size


def _pump(source: socket.socket, sink: socket.socket) -> Iterator[int]:
    """Carry bytes one way to their end; yield how many, each time."""
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
            yield len(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)
