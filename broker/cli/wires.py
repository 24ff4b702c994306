"""
Tickets in files: reading a wire form, and believing it with this installation's key.

Decided here: that nothing of a ticket is shown or used before its MAC chain holds. The key is
never created here: without one there is nothing to verify with.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from broker.cli.typed import file_bytes
from broker.errors import InputError, UnverifiableError
from broker.ticket import Ticket, UnverifiedTicket, session_key, verify_chain

if TYPE_CHECKING:
    from broker.home import Home
    from broker.receipt import Key
    from broker.service.client import SessionClient

KEY_NAME: Final = "receipt.key"


def believed(name: str | None, home: Home) -> Ticket:
    """
    Return the ticket in the file ``name`` (``-``: stdin; None: the one of the live session).

    Raises:
        InputError: the file cannot be read, or holds no ticket; no file and no live session.
        TicketVerificationError: it was not made here, was changed, or widens.
        UnverifiableError: there is no key to verify it with.
    """
    if name is None:
        wire = str(live_session().describe().get("ticket", "")).encode()
    else:
        wire = file_bytes(name, "the ticket")
    unverified = UnverifiedTicket.parse(wire.strip(b" \t\r\n"))
    key = installation_key(home)
    return verify_chain(unverified, session_key(key.secret, unverified.sid))


def live_session() -> SessionClient:
    """
    Return the session that this process runs in.

    Raises:
        InputError: it runs in none.
    """
    from broker.service.client import SOCKET_VARIABLE, SessionClient

    if not os.environ.get(SOCKET_VARIABLE):
        raise InputError("name a ticket's file, or ask from inside `broker run`")
    return SessionClient.find(os.environ)


def installation_key(home: Home) -> Key:
    """
    Return the secret of this installation.

    Raises:
        UnverifiableError: there is none, or its file is not safe to use.
    """
    from broker.receipt import load_key

    try:
        return load_key(home.keys / KEY_NAME)
    except UnverifiableError as error:
        if error.code != "unverifiable.missing":
            raise
        begun = os.path.isdir(home.sessions)
        helps = "put it back from a copy" if begun else "`broker run` begins a session and makes it"
        raise UnverifiableError(f"{error}: {helps}", code=error.code) from error
