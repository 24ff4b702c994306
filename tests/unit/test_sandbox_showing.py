"""Ports of a run on this machine's loopback."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker.caveats import paths
from broker.sandbox.showing import ShownPorts
from tests.unit.test_sandbox_engines import order


def test_a_shown_port_leads_to_nothing_but_a_socket_of_the_run(tmp_path: Path) -> None:
    """A link in the socket's place, or in its folder's, is not followed out of the walls."""
    walled = order(tmp_path, paths("src/**")).walled
    folder = tmp_path / "tmp"
    folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    outside = socket.socket(socket.AF_UNIX)
    outside.bind(str(tmp_path / "service"))
    outside.listen()
    outside.setblocking(False)
    within = socket.socket(socket.AF_UNIX)
    place = folder / f"port-{port}"
    within.bind(str(place))
    within.listen()
    shown = ShownPorts(walled, [port])
    shown.bind()
    shown.start()
    try:
        with outside, within:
            within.settimeout(10)
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                client.sendall(b"x")
                assert within.accept()[0].recv(1) == b"x"
            place.rename(folder / "kept")
            place.symlink_to(tmp_path / "service")
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                assert client.recv(1) == b""
            folder.rename(tmp_path / "moved")
            (tmp_path / "elsewhere").mkdir()
            (tmp_path / "elsewhere" / place.name).hardlink_to(tmp_path / "service")
            folder.symlink_to(tmp_path / "elsewhere")
            with socket.create_connection(("127.0.0.1", port), 10) as client:
                assert client.recv(1) == b""
            with pytest.raises(BlockingIOError):
                outside.accept()
    finally:
        shown.stop()
