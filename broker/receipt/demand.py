"""
What a verification must come to: the levels, and what a caller asks for on top.

Decided here: which level is stronger than which, what the open line promises, and when a
record falls short. Not decided here: how a level is reached (``verify``).

    chain     links, numbers and form hold; nobody vouches for a line
    mac       every line's tag holds too, and a head says how many lines there must be
    signed    a checkpoint with a public-key signature covers the lines
    anchored  somebody outside holds that checkpoint, or one of the ledger that covers it

Rules a maintainer keeps:

- A level counts as reached only when everything below it held as well; the one exception is
  ``signed`` without the secret, where the signature stands in for the tags.
- The stronger of what was promised and what is asked for is enforced. A promise is believed
  only when the open line was authenticated; it is never a reason to check less.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, Literal

from broker.errors import Break, InputError

Level = Literal["chain", "mac", "signed", "anchored"]
LEVELS: Final[tuple[Level, ...]] = ("chain", "mac", "signed", "anchored")
FIRST_CHECKPOINT_LINES: Final = 64  # an open session of no more lines may have none yet

_HEAD: Final = re.compile(r"([1-9][0-9]{0,15}):([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Demand:
    """
    What a caller asks of a receipt.

    Args:
        level: the level it must reach; None asks for what its open line promises.
        require_seal: a receipt without a seal is a break.
        expect: a head that somebody wrote down: the number of lines, and the last one's hash.
        quick: check links, the tags over them and the head, and do not read the JSON.
    """

    level: Level | None = None
    require_seal: bool = False
    expect: tuple[int, str] | None = None
    quick: bool = False


ANY: Final = Demand()


def reaches(level: Level, wanted: Level) -> bool:
    """
    Whether a level is at least the wanted one.

    >>> reaches("signed", "mac"), reaches("chain", "mac")
    (True, False)
    """
    return LEVELS.index(level) >= LEVELS.index(wanted)


def promised(text: str) -> Level:
    """
    Return the level that an open line's data promises; silence promises ``mac``.

    Raises:
        Break: it promises something else (``level``); its place is for the caller to add.

    >>> promised('{"level":"signed"}'), promised("{}")
    ('signed', 'mac')
    """
    said = json.loads(text).get("level", "mac")
    for level in LEVELS[1:]:
        if said == level:
            return level
    raise Break("level", "the open line promises a level that this version does not know")


def expected_head(text: str) -> tuple[int, str]:
    """
    Return the number of lines and the last one's hash from ``N:HASH``.

    Raises:
        InputError: it is not of that form.

    >>> expected_head("12:" + "ab" * 32)[0]
    12
    """
    found = _HEAD.fullmatch(text)
    if found is None:
        raise InputError(
            "a head is written N:HASH: how many lines, and the 64 hex digits of the last one's "
            "hash; `--verify` prints it"
        )
    return int(found[1]), found[2]
