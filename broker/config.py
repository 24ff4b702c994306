"""
The user's configuration: ``broker.toml`` in the configuration folder.

    [broker]
    enabled = true            # false: no veto and no receipt; `broker run` says so loudly
    canary = true             # false: a run begins without a try whether its agent obeys
    record = true             # false: `broker run` keeps no recording of what was said and done
    forward = "auditor.pub"   # every session is forward-secure for this auditor

    [harness]
    mode = "auto"       # of the reference agent: read-only, ask, auto; see ADR-0029
    model = "anthropic/claude-sonnet-5-5"   # that `broker agent` asks

    [models.local]      # a server of models besides the known providers; see docs/agent.md
    url = "http://localhost:11434/v1"

    [mcp.git]           # a server whose tools `broker agent` offers
    command = ["mcp-server-git"]

    [budget]            # where counts are shared with other machines; see docs/many.md
    url = "rediss://broker@counts.example.org"

    [receipts]
    mirror = "s3://audit/agents"   # where receipts are copied to; see docs/fleet.md

    [opinions.corp]     # who else must allow; see docs/opinions.md
    url = "https://pdp.example.com/access/v1/evaluation"

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

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.budgets.setting import BudgetSetting, read_setting
from broker.configfile import read_text
from broker.errors import ConfigError, InputError
from broker.permissions.modes import Mode, read_mode

if TYPE_CHECKING:
    from broker.opinions.settings import OpinionSetting
    from broker.receipt.sealing import AuditorKey

FILE_NAME: Final = "broker.toml"
_ANCHOR_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
APIS: Final = ("chat", "responses", "messages")  # what a server of models may speak


@dataclass(frozen=True, slots=True)
class AnchorSetting:
    """One ``[anchors.NAME]`` table: its kind, and its other settings as written."""

    name: str
    kind: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ModelSetting:
    """
    One ``[models.NAME]`` table: a server of models.

    ``api`` is what it speaks: ``chat`` (usual), ``responses`` or ``messages``. ``key`` is the name
    of the environment variable that holds its key, if it wants one.
    """

    name: str
    url: str
    api: str = "chat"
    key: str = ""


@dataclass(frozen=True, slots=True)
class ServerSetting:
    """
    One ``[mcp.NAME]`` table: an MCP server that is started, or one with an address.

    ``environ`` is what a started one is given besides the little that every program needs;
    ``headers`` go to an address.
    """

    name: str
    command: tuple[str, ...] = ()
    url: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Config:
    """
    What the user set.

    ``enabled`` false turns the veto and the receipt off; ``canary`` false starts agents untried;
    ``record`` false keeps no recordings; ``forward`` is the file of an auditor's public key;
    ``mode`` is how much the reference agent does unasked, ``model`` the one that it asks,
    ``models`` and ``servers`` where it has models and tools from; ``budget`` where counts are
    shared; ``opinions`` are asked about what a ticket allows; ``mirror`` is where receipts are
    copied to.

    >>> Config().enabled, Config().forward
    (True, None)
    """

    enabled: bool = True
    anchors: tuple[AnchorSetting, ...] = ()
    forward: Path | None = None
    mode: Mode | None = None
    canary: bool = True
    record: bool = True
    model: str = ""
    models: tuple[ModelSetting, ...] = ()
    servers: tuple[ServerSetting, ...] = ()
    budget: BudgetSetting | None = None
    opinions: tuple[OpinionSetting, ...] = ()
    mirror: str = ""

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
    text = read_text(path)
    if text is None:
        return Config()
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"`{path}`: {str(error)[:1].lower()}{str(error)[1:]}") from None
    found, chosen = Config(), Config()
    anchors: list[AnchorSetting] = []
    models: list[ModelSetting] = []
    servers: list[ServerSetting] = []
    budget: BudgetSetting | None = None
    opinions: tuple[OpinionSetting, ...] = ()
    mirror = ""
    for name, table in tables.items():
        if name == "broker" and isinstance(table, dict):
            found = _broker(path, text, table)
        elif name == "harness" and isinstance(table, dict):
            chosen = _harness(path, text, table)
        elif name == "budget" and isinstance(table, dict):
            budget = _budget(path, text, table)
        elif name == "anchors" and isinstance(table, dict):
            anchors = [_anchor(path, text, each, given) for each, given in table.items()]
        elif name == "models" and isinstance(table, dict):
            models = [_model(path, text, each, given) for each, given in table.items()]
        elif name == "mcp" and isinstance(table, dict):
            servers = [_server(path, text, each, given) for each, given in table.items()]
        elif name == "opinions" and isinstance(table, dict):
            from broker.opinions.settings import read_opinions  # noqa: PLC0415 - most have none

            where = partial(_where, path, text, "opinion")
            opinions = read_opinions(table, where, path.parent)
        elif name == "receipts" and isinstance(table, dict):
            mirror = _mirror(path, text, table)
        else:
            raise _unknown(
                path,
                text,
                name,
                "the tables are `[broker]`, `[harness]`, `[budget]`, `[anchors.NAME]`, "
                "`[models.NAME]`, `[mcp.NAME]`, `[opinions.NAME]` and `[receipts]`",
            )
    return replace(
        found,
        anchors=tuple(anchors),
        mode=chosen.mode,
        model=chosen.model,
        models=tuple(models),
        servers=tuple(servers),
        budget=budget,
        opinions=opinions,
        mirror=mirror,
    )


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


def _budget(path: Path, text: str, table: Mapping[str, object]) -> BudgetSetting:
    """Return where counts are shared."""
    try:
        return read_setting(table, path.parent)
    except ConfigError as error:
        line = _line(text, str(error.detail.get("key")))
        raise ConfigError(f"`{path}`, line {line}: {error.message}") from None


def _harness(path: Path, text: str, table: Mapping[str, object]) -> Config:
    """Return the mode and the model of the reference agent."""
    mode: Mode | None = None
    model = ""
    for key, value in table.items():
        if key == "model":
            if not isinstance(value, str) or not value:
                raise _wrong(path, text, key, "is `PROVIDER/MODEL`, in quotes")
            model = value
            continue
        if key != "mode":
            raise _unknown(path, text, key, "the settings are `mode` and `model`")
        try:
            mode = read_mode(str(value))
        except InputError as error:
            raise _wrong(path, text, key, f"is a mode: {error.message}") from None
    return Config(mode=mode, model=model)


def _model(path: Path, text: str, name: str, table: object) -> ModelSetting:
    """Return one server of models."""
    where = f"`{path}`, line {_line(text, name)}: server of models `{name}`"
    found = _named(where, name, table, f"[models.{name}]")
    for key, value in found.items():
        if key not in ("url", "api", "key"):
            raise _unknown(path, text, key, "a server of models has `url`, `api` and `key`")
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{where}: `{key}` is text in quotes")
    url, api, variable = (str(found.get(key, "")) for key in ("url", "api", "key"))
    if not url.startswith(("http://", "https://")):
        raise ConfigError(f"{where} needs a `url` that begins with http:// or https://")
    if api not in ("", *APIS):
        raise ConfigError(f"{where}: `api` is one of {', '.join(APIS)}")
    if variable and _VARIABLE.fullmatch(variable) is None:
        raise ConfigError(f"{where}: `key` names an environment variable, and is never the key")
    return ModelSetting(name, url, api or APIS[0], variable)


def _server(path: Path, text: str, name: str, table: object) -> ServerSetting:
    """Return one MCP server."""
    where = f"`{path}`, line {_line(text, name)}: MCP server `{name}`"
    found = _named(where, name, table, f"[mcp.{name}]")
    for key in found:
        if key not in ("command", "url", "env", "headers"):
            raise _unknown(
                path, text, key, "an MCP server has `command` and `env`, or `url` and `headers`"
            )
    command, url = found.get("command", []), found.get("url", "")
    words = isinstance(command, list) and all(isinstance(word, str) and word for word in command)
    if not words or not isinstance(url, str) or bool(command) == bool(url):
        raise ConfigError(f"{where} has a `command`, a list of words, or a `url`: one of both")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigError(f"{where}: `url` begins with http:// or https://")
    tables: dict[str, Mapping[str, str]] = {}
    for key, of in (("env", "command"), ("headers", "url")):
        given = found.get(key, {})
        if (
            not isinstance(given, dict)
            or not all(isinstance(each, str) for each in given.values())
            or (given and not found.get(of))
        ):
            raise ConfigError(f"{where}: `{key}` is a table of texts, beside a `{of}`")
        tables[key] = given
    words_of = tuple(command) if isinstance(command, list) else ()
    return ServerSetting(name, words_of, url, tables["env"], tables["headers"])


def _where(path: Path, text: str, kind: str, name: str) -> str:
    """Return what stands before a message about one table."""
    return f"`{path}`, line {_line(text, name)}: {kind} `{name}`"


def _mirror(path: Path, text: str, table: Mapping[str, object]) -> str:
    """Return where receipts are copied to."""
    for key, value in table.items():
        if key != "mirror":
            raise _unknown(path, text, key, "the setting is `mirror`")
        if not isinstance(value, str) or "://" not in value:
            raise _wrong(path, text, key, "is the address of a store, such as `s3://bucket/folder`")
    return str(table.get("mirror", ""))


def _named(where: str, name: str, table: object, spelled: str) -> dict[str, object]:
    if _ANCHOR_NAME.fullmatch(name) is None:
        raise ConfigError(f"{where}: name it with a-z, 0-9 and -")
    if not isinstance(table, dict):
        raise ConfigError(f"{where} is a table: write `{spelled}`")
    return table


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


def _wrong(path: Path, text: str, name: str, meaning: str) -> ConfigError:
    return ConfigError(f"`{path}`, line {_line(text, name)}: `{name}` {meaning}")


def _unknown(path: Path, text: str, name: str, hint: str) -> ConfigError:
    return ConfigError(f"`{path}`, line {_line(text, name)}: no such setting `{name}`; {hint}")


def _line(text: str, name: str) -> int:
    """Return the line where a table or key of this name is first written."""
    word = re.compile(
        rf"^\s*\[?\s*(?:(?:broker|harness|budget|anchors|models|mcp|opinions|receipts)\s*\.\s*)?[\"']?{re.escape(name)}[\"']?\s*[\]=.]"
    )
    for number, line in enumerate(text.splitlines(), 1):
        if word.match(line):
            return number
    return 1
