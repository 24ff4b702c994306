"""
Ports of a run that the person's own machine sees: a dev server's, where ``--show-port`` says so.

Decided here: who listens outside, and how a connection is carried to the socket that the first
process within the walls has made. Not decided here: that process's end of it (``inside``).

Rules a maintainer keeps: what lies within the walls is never followed out of them, since whatever
runs there can put a link where a socket was.
"""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from broker.errors import LaunchError
from broker.sandbox import inside
from broker.sandbox.walled import Walled


class ShownPorts:
    """Ports of the run that the person's own machine sees on loopback, such as a dev server's."""

    def __init__(self, walled: Walled, ports: Sequence[int]) -> None:
        self._folder = os.path.join(walled.scratch, "tmp")
        self._folder_fd = -1  # held open: a path could be made to lead elsewhere meanwhile
        self._ports = ports
        self._listeners: list[socket.socket] = []

    def bind(self) -> None:
        """
        Take the ports. Whoever connects waits until ``start``.

        Raises:
            LaunchError: a port is taken.
        """
        self._folder_fd = os.open(self._folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        for port in self._ports:
            listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                listener.bind(("127.0.0.1", port))
                listener.listen(64)
            except OSError as error:
                listener.close()
                raise LaunchError(f"port {port} cannot be shown: {error.strerror}") from error
            self._listeners.append(listener)

    def start(self) -> None:
        """Begin to carry, in threads of its own."""
        for listener, port in zip(self._listeners, self._ports, strict=True):
            accept = inside.accepting(listener, partial(self._reach, f"port-{port}"))
            threading.Thread(target=accept, daemon=True).start()

    def stop(self) -> None:
        """Take no more connections."""
        for listener in self._listeners:
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        if self._folder_fd >= 0:
            os.close(self._folder_fd)
            self._folder_fd = -1

    def _reach(self, name: str) -> socket.socket:
        """
        Connect to a socket that the run made.

        We stand outside of the walls, and whatever runs within can put a link in the socket's
        place: followed, it would lead to a service that the walls hide.

        Raises:
            OSError: there is no socket by that name, or nobody listens.
        """
        fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folder_fd)
        try:
            if not stat.S_ISSOCK(os.fstat(fd).st_mode):
                raise ConnectionRefusedError(name)
            return inside.reached(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
