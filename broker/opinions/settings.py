"""
Which opinions there are: ``[opinions.NAME]`` tables, and what is typed behind ``--opinion``.

    [opinions.corp]
    url = "https://pdp.example.com/access/v1/evaluation"   # or …/evaluations
    bearer = "corp.key"      # a file beside the configuration; sent with each request
    ca = "corp-ca.pem"       # who signed its certificate, where that is not a public authority
    within_s = 2.0           # seconds for all that is asked about one call
    arguments = false        # true: the call's arguments are handed on too

    [opinions.house]
    cedar = "house.cedar"

Decided here: what may be set, and that an opinion comes from nowhere that an agent can write. Not
decided here: where the configuration lies (``broker.config``).

Rules a maintainer keeps: a policy or a key in the workspace is an error; a key is never a text in
the configuration; what goes over a network is encrypted; a name is had once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from broker.errors import ConfigError, InputError, UnverifiableError
from broker.home import every_name
from broker.limits import MAX_OPINION_BYTES, MAX_OPINIONS, MAX_TEXT_CHARS
from broker.opinions.opinion import NoAnswerError, Opinion
from broker.receipt import disk
from broker.redaction.hiding import clipped

BATCH: Final = "/evaluations"  # how the address ends that takes all questions at once
WITHIN_S: Final = 2.0
MAX_WITHIN_S: Final = 10.0  # an agent's hook has a deadline of its own
CEDAR: Final = ".cedar"
_TYPED: Final = "typed"
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,31}", re.ASCII)


@dataclass(frozen=True, slots=True)
class OpinionSetting:
    """
    One opinion: a decision point's ``url``, or a file of ``cedar`` policies.

    ``bearer`` and ``ca`` are files; ``within_s`` is in seconds.
    """

    name: str
    url: str = ""
    cedar: Path | None = None
    bearer: Path | None = None
    ca: Path | None = None
    within_s: float = WITHIN_S
    arguments: bool = False

    def files(self) -> tuple[Path, ...]:
        """Return the files that no tool may touch."""
        return tuple(each for each in (self.cedar, self.bearer, self.ca) if each is not None)


def read_opinions(
    tables: Mapping[str, object], where: Callable[[str], str], folder: Path
) -> tuple[OpinionSetting, ...]:
    """
    Return what all tables say.

    Args:
        tables: each, by its name.
        where: returns what stands before a message about one.
        folder: what their files are relative to.

    Raises:
        ConfigError: one says something unknown, or too little, or has no good name.
    """
    found = []
    for name, table in tables.items():
        if _NAME.fullmatch(name) is None:
            raise ConfigError(f"{where(name)}: name it with a-z, 0-9 and -")
        if not isinstance(table, dict):
            raise ConfigError(f"{where(name)} is a table: write `[opinions.{name}]`")
        found.append(read_opinion(where(name), name, table, folder))
    return tuple(found)


def read_opinion(
    where: str, name: str, table: Mapping[str, object], folder: Path
) -> OpinionSetting:
    """
    Return what one table says.

    Args:
        where: the file, the line and the name, for messages.
        name: what the table is called.
        table: as it was read.
        folder: what its files are relative to.

    Raises:
        ConfigError: it says something unknown, or too little.
    """
    texts: dict[str, str] = {}
    for key in ("url", "cedar", "bearer", "ca"):
        value = table.get(key, "")
        if not isinstance(value, str) or (key in table and not value):
            raise ConfigError(f"{where}: `{key}` is text in quotes")
        texts[key] = value
    if unknown := sorted(set(table) - {*texts, "within_s", "arguments"}):
        raise ConfigError(
            f"{where}: no such setting `{unknown[0]}`; an opinion has `url`, `bearer`, `ca`, "
            "`within_s` and `arguments`, or `cedar`"
        )
    if bool(texts["url"]) == bool(texts["cedar"]):
        raise ConfigError(f"{where} has a `url` or a `cedar`, a file of policies: one of both")
    if texts["cedar"] and set(table) != {"cedar"}:
        raise ConfigError(f"{where}: beside `cedar` there is nothing to set")
    within_s, arguments = table.get("within_s", WITHIN_S), table.get("arguments", False)
    if isinstance(within_s, bool) or not isinstance(within_s, int | float):
        raise ConfigError(f"{where}: `within_s` is a number of seconds")
    if not 0 < within_s <= MAX_WITHIN_S:
        raise ConfigError(f"{where}: `within_s` is above 0 and at most {MAX_WITHIN_S:g}")
    if not isinstance(arguments, bool):
        raise ConfigError(f"{where}: `arguments` is true or false, without quotes")
    if texts["url"] and (why := wrong_address(texts["url"])):
        raise ConfigError(f"{where}: {why}")
    cedar, bearer, ca = (
        folder / texts[key] if texts[key] else None for key in ("cedar", "bearer", "ca")
    )
    return OpinionSetting(name, texts["url"], cedar, bearer, ca, float(within_s), arguments)


def typed_opinions(texts: Sequence[str], folder: Path) -> tuple[OpinionSetting, ...]:
    """
    Return the opinions that were typed: addresses, and files that end in ``.cedar``.

    Args:
        texts: as typed.
        folder: what files are relative to.

    Raises:
        InputError: a text is neither.

    >>> typed_opinions(["http://127.0.0.1:9/access/v1/evaluation"], Path("/"))[0].name
    'typed-1'
    """
    found = []
    for number, text in enumerate(texts, 1):
        name = f"{_TYPED}-{number}"
        if text.endswith(CEDAR):
            found.append(OpinionSetting(name, cedar=folder / text))
        elif why := wrong_address(text):
            raise InputError(f"opinion `{text}`: {why}; or name a file that ends in `{CEDAR}`")
        else:
            found.append(OpinionSetting(name, text))
    return tuple(found)


def named(settings: Sequence[OpinionSetting]) -> dict[str, str]:
    """
    Return what a receipt says of opinions: their names, and where each is had from.

    >>> named([OpinionSetting("corp", "https://pdp.example.com/evaluation?key=secret")])
    {'corp': 'https://pdp.example.com/evaluation'}
    """
    return {
        each.name: each.url.partition("?")[0] if each.cedar is None else os.fspath(each.cedar)
        for each in settings
    }


def files_of(settings: Sequence[OpinionSetting]) -> tuple[str, ...]:
    """Return the names of all files that opinions are made from; no tool may touch them."""
    return every_name(path for setting in settings for path in setting.files())


def check_still_there(before: Mapping[str, str], settings: Sequence[OpinionSetting]) -> None:
    """
    Check that a session that goes on has all the opinions that it began with.

    Args:
        before: as its receipt names them.
        settings: those that there are now.

    Raises:
        InputError: one is gone, or is had from elsewhere.
    """
    now = named(settings)
    for name, of in before.items():
        if clipped(now.get(name, ""), MAX_TEXT_CHARS, "…") != of:
            raise InputError(
                f"the session began with the opinion `{name}` of `{of}`, which is not there any "
                "more: configure it again, or open another session"
            )


def wrong_address(url: str) -> str:
    """
    Return why an address is none that may be asked, or an empty text.

    >>> wrong_address("https://pdp.example.com/access/v1/evaluation")
    ''
    >>> wrong_address("http://pdp.example.com/")
    'what leaves this machine is encrypted: `https://`'
    """
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return f"`{url}` is no address"
    if parts.scheme not in ("http", "https") or not host:
        return "its address begins with `https://`"
    if parts.username is not None or parts.fragment or not url.isascii() or " " in url:
        return "its address has no user, no `#` and no other letters than ASCII in it"
    if parts.scheme == "http" and not _is_here(host):
        return "what leaves this machine is encrypted: `https://`"
    return ""


def opinions(settings: Sequence[OpinionSetting], workspace: Path) -> tuple[Opinion, ...]:
    """
    Return the opinions that are asked, those of this process first.

    Args:
        settings: as read.
        workspace: where an agent writes, so that nothing comes from there.

    Raises:
        ConfigError: a file is in the workspace, or is no policy.
        UnverifiableError: a file is missing, or others may write it.
        InputError: there are more than MAX_OPINIONS.
    """
    if len(settings) > MAX_OPINIONS:
        raise InputError(f"a session asks at most {MAX_OPINIONS} opinions", code="limit")
    for setting in settings:
        for path in setting.files():
            if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(workspace)):
                raise ConfigError(
                    f"opinion `{setting.name}`: `{path}` lies in the workspace, where an agent "
                    "can change it: move it beside `broker.toml`"
                )
    names = [setting.name for setting in settings]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"two opinions have the name `{twice}`: call one of them otherwise")
    ordered = sorted(settings, key=lambda setting: setting.cedar is None)
    return tuple(_made(setting) for setting in ordered)


def _made(setting: OpinionSetting) -> Opinion:
    if setting.cedar is not None:
        from broker.opinions.cedar import Cedar  # noqa: PLC0415 - most sessions ask nobody

        policy = _read(setting.cedar, "policy", disk.OTHERS_WRITE)
        return Cedar(setting.name, policy, os.fspath(setting.cedar))
    import ssl  # noqa: PLC0415 - as above, and these take long to load

    from broker.opinions.authzen import AuthZen  # noqa: PLC0415
    from broker.opinions.web import Web  # noqa: PLC0415

    tls = None
    if setting.url.startswith("https"):
        try:
            tls = ssl.create_default_context(cafile=setting.ca)
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"opinion `{setting.name}`: `{setting.ca}` holds no certificates: {error}"
            ) from error
    bearer = str if setting.bearer is None else partial(_bearer, setting.bearer)
    try:
        bearer()  # a key that is not there is told now and not at the first call
    except NoAnswerError as error:
        raise ConfigError(f"opinion `{setting.name}`: {error}") from error
    return AuthZen(
        setting.name,
        Web(setting.url, tls),
        batch=urlsplit(setting.url).path.endswith(BATCH),
        within_s=setting.within_s,
        bearer=bearer,
        shows_arguments=setting.arguments,
    )


def _bearer(path: Path) -> str:
    try:
        key = _read(path, "key", disk.BEYOND_OWNER).strip()
    except UnverifiableError as error:
        raise NoAnswerError(error.message) from error
    if not key or not key.isascii() or not key.isprintable():
        raise NoAnswerError(f"`{path}` holds no key")
    return key


def _read(path: Path, what: str, forbidden: int) -> str:
    fd = disk.open_checked(path, what, forbidden=forbidden)
    with open(fd, "rb", closefd=True) as stream:
        content = stream.read(MAX_OPINION_BYTES + 1)
    if len(content) > MAX_OPINION_BYTES:
        raise UnverifiableError(f"the {what} `{path}` has more than {MAX_OPINION_BYTES} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnverifiableError(f"the {what} `{path}` is no UTF-8 text") from error


def _is_here(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress  # noqa: PLC0415 - as above

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
