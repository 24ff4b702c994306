"""
How a run of the agent ends, as an exit code.

    0  everything came out as it should
    1  a call came out otherwise than the script expects, or something was refused
    2  bad input
    3  the configuration does not hold: it is wrong, or says `yolo` by itself
    4  a capability is not there, or was not given
    5  something could not be verified
    6  the session is over, or its receipt cannot be written
    7  the model did not answer
    9  the check that the person declared does not pass

Decided here: which error class has which code. 8 is kept free.

A rule a maintainer keeps: every class of ``broker.errors`` has a code, and a new one gets it here.
"""

from __future__ import annotations

from typing import Final

from broker.errors import (
    AttenuationError,
    BrokerError,
    CapabilityError,
    ConfigError,
    InputError,
    LaunchError,
    ModelError,
    Refused,
    StoreError,
    TraceError,
    UnverifiableError,
    VerificationError,
)
from broker.harness.files import ToolError
from broker.harness.verify import VerifyError

DONE: Final = 0
UNEXPECTED: Final = 1
BAD_INPUT: Final = 2

# The first that fits counts, so a subclass stands before its parent.
_CODES: Final[tuple[tuple[type[BrokerError], int], ...]] = (
    (VerifyError, 9),
    (ConfigError, 3),
    (InputError, BAD_INPUT),
    (CapabilityError, 4),
    (VerificationError, 5),
    (UnverifiableError, 5),
    (TraceError, 5),
    (StoreError, 6),
    (ModelError, 7),
    (LaunchError, 3),
    (AttenuationError, UNEXPECTED),
    (Refused, UNEXPECTED),
    (ToolError, UNEXPECTED),
)


def exit_code(error: BrokerError) -> int:
    """
    Return the exit code for an error.

    >>> exit_code(ConfigError("…")), exit_code(InputError("…")), exit_code(VerifyError("…"))
    (3, 2, 9)
    """
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return BAD_INPUT
