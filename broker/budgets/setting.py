"""
The table ``[budget]`` of the configuration: where counts are shared.

    [budget]
    url = "rediss://broker@counts.example.org"   # or redis://, postgresql://, sqlite:///FILE
    password_file = "counts.password"   # beside the configuration where it is not absolute; or
    password = "COUNTS_PASSWORD"        # the name of an environment variable, never the password
    authorities = "ca.pem"              # what the server's certificate is held to
    vouched = true                      # the server does not tell how it is set; see docs/many.md

Decided here: which settings there are, and that a password stands in a file or in the environment,
never in an address, which is shown. Not decided here: what an address means
(``broker.budgets.opening``), where the file is (``broker.config``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from broker.errors import ConfigError
from broker.home import every_name

SCHEMES: Final = ("redis", "rediss", "postgresql", "postgres", "sqlite")
KEYS: Final = ("url", "password_file", "password", "authorities", "vouched")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


@dataclass(frozen=True, slots=True)
class BudgetSetting:
    """Where counts are shared, as the configuration says; see above."""

    url: str
    password_file: Path | None = None
    password: str = ""
    authorities: Path | None = None
    vouched: bool = False

    def own(self) -> tuple[str, ...]:
        """
        Return the files that no tool may touch: the counts, and the password.

        >>> BudgetSetting("sqlite:///nowhere/counts").own()[:2]
        ('/nowhere/counts', '/nowhere/counts-wal')
        """
        parts = urlsplit(self.url)
        found = [] if self.password_file is None else [self.password_file]
        if parts.scheme == "sqlite":
            path = unquote(parts.path)
            found += [Path(path + ending) for ending in ("", "-wal", "-shm", "-journal")]
        return every_name(found)


def read_setting(table: Mapping[str, object], folder: Path) -> BudgetSetting:
    """
    Return what ``[budget]`` says.

    Args:
        table: the table's keys and values.
        folder: the configuration's, which relative files lie in.

    Raises:
        ConfigError: a setting that is not known, or means nothing; ``detail["key"]`` names it.

    >>> read_setting({"url": "redis://localhost"}, Path("/")).url
    'redis://localhost'
    """
    texts: dict[str, str] = {}
    for key, value in table.items():
        if key not in KEYS:
            named = ", ".join(f"`{each}`" for each in KEYS)
            raise _wrong(key, f"no such setting `{key}`; `[budget]` has {named}")
        if key == "vouched":
            if not isinstance(value, bool):
                raise _wrong(key, "`vouched` is true or false, without quotes")
        elif not isinstance(value, str) or not value:
            raise _wrong(key, f"`{key}` is text in quotes")
        else:
            texts[key] = value
    url = texts.get("url", "")
    checked_url(url)
    variable = texts.get("password", "")
    if variable and _VARIABLE.fullmatch(variable) is None:
        raise _wrong("password", "`password` names an environment variable, and is never it")
    if variable and "password_file" in texts:
        raise _wrong("password", "give `password` or `password_file`, and not both")
    return BudgetSetting(
        url,
        folder / texts["password_file"] if "password_file" in texts else None,
        variable,
        folder / texts["authorities"] if "authorities" in texts else None,
        table.get("vouched") is True,
    )


def checked_url(url: str) -> SplitResult:
    """
    Return the parts of the address of a store.

    Raises:
        ConfigError: it is none, or a password stands in it.

    >>> checked_url("redis://:secret@h")
    Traceback (most recent call last):
    broker.errors.ConfigError: a password stands in `url`: put it into a file, and name ...
    """
    try:
        parts = urlsplit(url)
        secret = parts.password
        parts.port  # noqa: B018  a port that is none raises
    except ValueError:
        raise _wrong("url", "`url` is no address") from None
    if parts.scheme not in SCHEMES:
        raise _wrong(
            "url",
            "`url` is needed, and begins with redis://, rediss://, postgresql:// or sqlite:///",
        )
    if secret is not None or "password" in parts.query:
        raise _wrong(
            "url",
            "a password stands in `url`: put it into a file, and name that by `password_file`",
        )
    if parts.scheme == "sqlite" and (parts.netloc or not parts.path.startswith("/")):
        raise _wrong("url", "`url` names a file by its absolute path, as in sqlite:///var/counts")
    return parts


def _wrong(key: str, message: str) -> ConfigError:
    error = ConfigError(message)
    error.detail["key"] = key
    return error
