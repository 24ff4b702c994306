"""
What in Claude Code's settings would switch hooks off, and where it would stand.

Decided here: which settings and files matter, and whether one of them says *no hooks*. Not
decided here: what follows (``broker.agents.claude.launch`` refuses to start, or stops the run).

The user's own settings are loaded in a run, so that the user's permission rules apply. Those of
the workspace are not, since a workspace is not trusted: its hooks could rewrite a call after it
was judged. Only its rules that refuse or ask are passed on. What an administrator installed
always applies.

Rules a maintainer keeps: a settings file that may say *no hooks* is taken to say so; the rules
follow what Claude Code 2.1.332 does, and its test runs the real one.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from broker.limits import MAX_SETTINGS_BYTES

SWITCHES: Final = ("CLAUDE_CODE_SIMPLE", "CLAUDE_CODE_SAFE_MODE")

_OFF_IN_TEXT: Final = re.compile(r'"disableAllHooks"\s*:\s*(?:true|"(?!f)|[0-9{\[-])')
_ANCHORED: Final = re.compile(r"\A(\w+)\(/(?!/)")
_MANAGED: Final = (
    "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code"
)


def user_settings(environ: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the files of the user's own settings."""
    return (config_folder(environ) / "settings.json",)


def managed_settings(root: Path | None = None) -> tuple[Path, ...]:
    """Return the files that an administrator may have installed."""
    folder = Path(_MANAGED) if root is None else root
    return (folder / "managed-settings.json", *sorted(folder.glob("managed-settings.d/*.json")))


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return Claude Code's configuration folder."""
    chosen = environ.get("CLAUDE_CONFIG_DIR")
    return Path(chosen) if chosen else Path(environ.get("HOME") or "/") / ".claude"


def truthy(value: str | None) -> bool:
    """Whether Claude Code takes an environment variable for a yes."""
    return (value or "").strip().lower() in ("1", "true", "yes", "on")


def switched_off(path: Path, *, managed: bool = False) -> str | None:
    """
    Return what in a settings file keeps injected hooks from running, or None.

    A missing file switches nothing off.
    """
    try:
        text = _content(path).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"it cannot be read ({(error.strerror or 'unknown error').lower()})"
    if len(text) > MAX_SETTINGS_BYTES:
        return "it is too long to be read"
    try:
        settings = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError):
        # Claude Code ignores a file that is not JSON; one in the midst of being written counts
        # as soon as it says so.
        return "it says `disableAllHooks`" if _OFF_IN_TEXT.search(text) else None
    return next(switches(settings, managed), None)


def switches(settings: object, managed: bool = False) -> Iterator[str]:
    """Yield what in settings keeps injected hooks from running."""
    if not isinstance(settings, dict):
        return
    if settings.get("disableAllHooks") not in (None, False, "false"):
        yield "it sets `disableAllHooks`"
    if managed and settings.get("allowManagedHooksOnly") is True:
        yield "it sets `allowManagedHooksOnly`"
    if settings.get("strictPluginOnlyCustomization") not in (None, False, []):
        yield "it sets `strictPluginOnlyCustomization`"
    variables = settings.get("env")
    if isinstance(variables, dict):
        for name in SWITCHES:
            if truthy(str(variables.get(name, ""))):
                yield f"it sets `{name}` in `env`"


def workspace_rules(folder: Path) -> dict[str, list[str]]:
    """
    Return the rules of a workspace's own settings that can only tighten: `deny` and `ask`.

    The rest of those settings is not loaded; these are passed on, so that a run under a ticket is
    never looser than one without. A path that starts at the settings' own folder (``/x``) is
    spelled from the root (``//folder/x``).
    """
    rules: dict[str, list[str]] = {}
    for name in ("settings.json", "settings.local.json"):
        try:
            settings = json.loads(_content(folder / ".claude" / name))
        except (OSError, ValueError, RecursionError):
            continue  # Claude Code ignores it too
        permissions = settings.get("permissions") if isinstance(settings, dict) else None
        for kind in ("deny", "ask"):
            found = permissions.get(kind) if isinstance(permissions, dict) else None
            for rule in found if isinstance(found, list) else ():
                if isinstance(rule, str):
                    anchored = _ANCHORED.sub(lambda m: f"{m[1]}(/{folder}/", rule)
                    rules.setdefault(kind, []).append(anchored)
    return rules


def _content(path: Path) -> bytes:
    """
    Return the beginning of a plain file: a pipe that a workspace holds is never waited for.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a plain file")
        return file.read(MAX_SETTINGS_BYTES + 1)


def off_in_environment(environ: Mapping[str, str]) -> str | None:
    """Return the environment variable that keeps hooks from running, or None."""
    return next((name for name in SWITCHES if truthy(environ.get(name))), None)
