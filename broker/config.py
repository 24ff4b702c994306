"""
The user's configuration: ``broker.toml`` in the configuration folder.

    [broker]
    enabled = true            # false: no veto and no receipt; `broker run` says so loudly
    canary = true             # false: a run begins without a try whether its agent obeys
    record = true             # false: `broker run` keeps no recording of what was said and done
    forward = "auditor.pub"   # every session is forward-secure for this auditor

    [harness]
    mode = "auto"       # of the reference agent: read-only, ask, auto; see ADR-0029

    [anchors.audit]     # see docs/receipt.md; any number of them
    kind = "git"        # or "rfc3161", "witness"
    remote = "git@example.com:audit.git"

Decided here: which settings there are and that anything else is an error with its line. Not
decided here: where the folder is (``broker.home``).

Rules a maintainer keeps: the file is read from the user's configuration folder only, never from
a workspace, because a workspace is not trusted and could switch the broker off; a file that
cannot be read or understood is an error, never the defaults; a missing file is the defaults.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.errors import ConfigError, InputError
from broker.limits import MAX_CONFIG_BYTES
from broker.permissions.modes import Mode, read_mode

if TYPE_CHECKING:
    from broker.receipt.sealing import AuditorKey

FILE_NAME: Final = "broker.toml"
_ANCHOR_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")


@dataclass(frozen=True, slots=True)
class AnchorSetting:
    """One ``[anchors.NAME]`` table: its kind, and its other settings as written."""

    name: str
    kind: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Config:
    """
    What the user set.

    ``enabled`` false turns the veto and the receipt off; ``canary`` false starts agents untried;
    ``record`` false keeps no recordings; ``forward`` is the file of an auditor's public key;
    ``mode`` is how much the reference agent does unasked.

    >>> Config().enabled, Config().forward
    (True, None)
    """

    enabled: bool = True
    anchors: tuple[AnchorSetting, ...] = ()
    forward: Path | None = None
    mode: Mode | None = None
    canary: bool = True
    record: bool = True

    def auditor(self) -> AuditorKey | None:
        """
        Return the key that sessions are forward-secure for, if one is configured.

        Raises:
            UnverifiableError, InputError: its file is missing, unsafe, or holds no such key.
        """
        from broker.receipt.sealing import load_auditor_key  # noqa: PLC0415 - most name none

        return None if self.forward is None else load_auditor_key(self.forward)


# The settings of each kind of anchor: True for those that must be there.
ANCHORS: Final[Mapping[str, Mapping[str, bool]]] = {
    "git": {"remote": True, "branch": False},
    "rfc3161": {"url": True, "roots": True},
    "witness": {"url": True, "vkey": True},
}


def load_config(folder: Path) -> Config:
    """
    Read ``broker.toml`` in the user's configuration folder; a missing file is the defaults.

    Raises:
        ConfigError: it cannot be read, others may write it, or it says something unknown; the
            message names the file and the line.
    """
    path = folder / FILE_NAME
    text = _text(path)
    if text is None:
        return Config()
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{path}`: {str(error)[:1].lower()}{str(error)[1:]}") from None
    found, mode = Config(), None
    anchors: list[AnchorSetting] = []
    for name, table in tables.items():
        if name == "broker" and isinstance(table, dict):
            found = _broker(path, text, table)
        elif name == "harness" and isinstance(table, dict):
            mode = _harness(path, text, table)
        elif name == "anchors" and isinstance(table, dict):
            anchors = [_anchor(path, text, each, given) for each, given in table.items()]
        else:
            raise _unknown(
                path, text, name, "the tables are `[broker]`, `[harness]` and `[anchors.NAME]`"
            )
    return replace(found, anchors=tuple(anchors), mode=mode)


def _broker(path: Path, text: str, table: Mapping[str, object]) -> Config:
    """Return what the table ``[broker]`` says."""
    switches = {"enabled": True, "canary": True, "record": True}
    forward = None
    for key, value in table.items():
        if key in switches:
            if not isinstance(value, bool):
                raise _wrong(path, text, key, "is true or false, without quotes")
            switches[key] = value
        elif key == "forward":
            if not isinstance(value, str) or not value:
                raise _wrong(path, text, key, "is the file of an auditor's public key, in quotes")
            forward = path.parent / value  # where it is not absolute, beside the configuration
        else:
            raise _unknown(
                path, text, key, "the settings are `enabled`, `canary`, `record` and `forward`"
            )
    return Config(
        switches["enabled"],
        forward=forward,
        canary=switches["canary"],
        record=switches["record"],
    )


def _harness(path: Path, text: str, table: Mapping[str, object]) -> Mode | None:
    """Return the mode of the reference agent."""
    mode: Mode | None = None
    for key, value in table.items():
        if key != "mode":
            raise _unknown(path, text, key, "the setting is `mode`")
        try:
            mode = read_mode(str(value))
        except InputError as error:
            raise _wrong(path, text, key, f"is a mode: {error.message}") from None
    return mode


def _anchor(path: Path, text: str, name: str, table: object) -> AnchorSetting:
    """Return one anchor's settings, all of them known and none missing."""
    where = f"`{path}`, line {_line(text, name)}: anchor `{name}`"
    if _ANCHOR_NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: name it with a-z, 0-9 and -")
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is a table: write `[anchors.{name}]`")
    found = dict(table)
    kind = found.pop("kind", None)
    known = ANCHORS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise ConfigError(f"{where} needs a `kind`: {', '.join(ANCHORS)}")
    for key, value in found.items():
        if key not in known:
            raise _unknown(path, text, key, f"a `{kind}` anchor has {', '.join(known)}")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{where}: `{key}` is text in quotes")
    for key, needed in known.items():
        if needed and key not in found:
            raise ConfigError(f"{where}: a `{kind}` anchor needs `{key}`")
    return AnchorSetting(name, str(kind), found)


def _text(path: Path) -> str | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {_said(error)}") from error
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ConfigError(f"`{path}` is not a plain file")
        if found.st_mode & 0o022 or found.st_uid not in (os.geteuid(), 0):
            raise ConfigError(f"`{path}` can be written by others: chmod 600 it, and read it again")
        content = os.read(fd, MAX_CONFIG_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"`{path}` cannot be read: {_said(error)}") from error
    finally:
        os.close(fd)
    if len(content) > MAX_CONFIG_BYTES:
        raise ConfigError(f"`{path}` has more than {MAX_CONFIG_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"`{path}`, line {line}: not UTF-8 text") from None


def _said(error: OSError) -> str:
    return (error.strerror or "unknown error").lower()


def _wrong(path: Path, text: str, name: str, meaning: str) -> ConfigError:
    return ConfigError(f"`{path}`, line {_line(text, name)}: `{name}` {meaning}")


def _unknown(path: Path, text: str, name: str, hint: str) -> ConfigError:
    return ConfigError(f"`{path}`, line {_line(text, name)}: no such setting `{name}`; {hint}")


def _line(text: str, name: str) -> int:
    """Return the line where a table or key of this name is first written."""
    word = re.compile(
        rf"^\s*\[?\s*(?:(?:broker|harness|anchors)\s*\.\s*)?[\"']?{re.escape(name)}[\"']?\s*[\]=.]"
    )
    for number, line in enumerate(text.splitlines(), 1):
        if word.match(line):
            return number
    return 1
