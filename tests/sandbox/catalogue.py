"""The ways out of the walls, as ``catalogue.toml`` lists them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

PREPARED = """\
import ctypes, os, sys
libc, env = ctypes.CDLL(None, use_errno=True), os.environ
"""


class Attempt(NamedTuple):
    """One way out; ``how`` is the interpreter, ``sign`` what would show that it worked."""

    name: str
    code: str
    how: str = "sh"
    sign: str = "told"
    landlock: str = ""

    @property
    def whole(self) -> str:
        """The code with what each script of its kind finds."""
        return PREPARED + self.code if self.how == "python" else self.code


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
ALL = tuple(Attempt(**table) for table in _TABLES["attempt"])
BY_LANDLOCK = {attempt.name: attempt.landlock for attempt in ALL if attempt.landlock}
