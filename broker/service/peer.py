"""
Who is at the other end of a unix socket.

Decided here: that only processes of the same user are answered. The socket's mode says so too;
this is checked by the kernel's own record of the peer, which no file mode can get wrong.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import Final

_UCRED: Final = struct.Struct("3i")  # Linux: pid, uid, gid
_XUCRED: Final = struct.Struct("2I")  # macOS: version, uid, then groups
_XUCRED_BYTES: Final = 76
_SOL_LOCAL: Final = 0
_LOCAL_PEERCRED: Final = 1


def peer_uid(connection: socket.socket) -> int | None:
    """Return the user of the process at the other end, or None when the kernel does not say."""
    try:
        if sys.platform == "darwin":
            found = connection.getsockopt(_SOL_LOCAL, _LOCAL_PEERCRED, _XUCRED_BYTES)
            return int(_XUCRED.unpack_from(found)[1])
        found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
        return int(_UCRED.unpack(found)[1])
    except (OSError, AttributeError, struct.error):
        return None


def is_own(connection: socket.socket) -> bool:
    """Whether the peer runs as the user that this process runs as."""
    return peer_uid(connection) == os.geteuid()
