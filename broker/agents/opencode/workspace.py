"""
What a workspace brings that opencode would run in its own process.

``OPENCODE_DISABLE_PROJECT_CONFIG`` keeps a workspace's configuration from opencode's sessions. A
second reader of the same files lies in opencode beside that one, and does not ask: moments after
the start it imports every plugin of a ``.opencode`` folder, and each that an ``opencode.json``
names, from the folder of the work upwards. Nothing switches it off.

Decided here: which files that reader looks at, and whether one of them brings code. Not decided
here: what follows (``broker.agents.opencode.launch`` refuses to start, or stops the run).

Rules a maintainer keeps: a file that cannot be read as opencode reads it counts as one that brings
a plugin; what lies in the person's own folder counts as the person's; the rules follow what
opencode 1.18.33 does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from broker.agents.settingsfile import parse_settings, plain_text
from broker.agents.watch import stamp

FOLDER: Final = ".opencode"
_PLUGINS: Final = ("plugin", "plugins")
_FILES: Final = ("opencode.json", "opencode.jsonc")
_CODE: Final = (".js", ".ts")
# A comment ends where the shortest reading has it end, so that it hides nothing.
_TEXT: Final = r'("(?:\\.|[^"\\])*")'
_COMMENT: Final = re.compile(rf"{_TEXT}|//[^\r\n\u2028\u2029]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])", re.DOTALL)


class Workspace:
    """
    The files of one run that could bring code, looked at again when they change.

    >>> Workspace([Path("/nowhere/at/all")], Path("/nowhere")).brings() is None
    True
    """

    def __init__(self, folders: Iterable[Path], home: Path) -> None:
        """
        Begin with nothing seen.

        Args:
            folders: where opencode works; it looks there and above.
            home: the person's home, whose ``.opencode`` is the person's own.
        """
        tops = [Path(os.path.realpath(folder)) for folder in folders]
        above = dict.fromkeys(place for top in tops for place in (top, *top.parents))
        mine = Path(os.path.realpath(home)) / FOLDER
        hidden = [place / FOLDER for place in above if place / FOLDER != mine]
        self._plugins = [place / name for place in hidden for name in _PLUGINS]
        self._settings = [place / name for place in (*above, *hidden) for name in _FILES]
        self._watched = (*self._plugins, *self._settings)
        self._stamp: object = None
        self._why: str | None = None

    def brings(self) -> str | None:
        """Return what would be run, or None; cheap to ask all the time."""
        now = stamp(self._watched)  # before it is looked at, so that no change is missed
        if now != self._stamp:
            self._why = self._look()
            self._stamp = now
        return self._why

    def _look(self) -> str | None:
        for folder in self._plugins:
            try:
                names = sorted(os.listdir(folder))
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError:
                return f"`{folder}` cannot be read"
            for name in names:
                if name.endswith(_CODE):
                    return f"opencode would run the plugin `{folder / name}`"
        for path in self._settings:
            if (why := _named(path)) is not None:
                return f"`{path}` {why}"
        return None


def _named(path: Path) -> str | None:
    """Return why a settings file brings plugins, or None."""
    text = plain_text(path)
    if text is None:
        return "cannot be read" if os.path.lexists(path) else None
    for aside in (_COMMENT, _LAST_COMMA):
        text = aside.sub(lambda m: m[1] or " ", text)
    settings, why = parse_settings(text)
    if why is not None:
        return why
    # Two keys of one name are read as opencode reads them: the later one counts.
    if any(settings.get(key) not in (None, []) for key in _PLUGINS):
        return "names plugins, which opencode would run"
    return None
