"""
Which store an address means.

Decided here: the address, the password and where it is read, and that a plain connection that
leaves this machine is an error. Not decided here: what each store does.

Rules a maintainer keeps: a library is loaded only for the store that needs it; no message shows a
password.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, unquote

from broker.budgets.setting import BudgetSetting, checked_url
from broker.budgets.shared import TRY_S, SharedBudget
from broker.budgets.store import Store
from broker.errors import ConfigError
from broker.receipt import disk

_LOCAL: Final = frozenset(("localhost", "127.0.0.1", "::1"))
_MAX_PASSWORD_BYTES: Final = 4_096


def open_store(
    setting: BudgetSetting, environ: Mapping[str, str], *, try_s: float = TRY_S
) -> Store:
    """
    Return the store that a configuration names.

    Args:
        setting: the table ``[budget]``.
        environ: where a password may be.
        try_s: the longest wait for one answer.

    Raises:
        ConfigError: its password is not there, or the server forgets what it has answered.
        InputError: its client library is not installed.
        StoreError: it cannot be asked.
        UnverifiableError: a file of it is not safe to use.
    """
    parts = checked_url(setting.url)
    if parts.scheme == "sqlite":
        from broker.budgets.sqlite import SqliteStore  # noqa: PLC0415  a library each

        return SqliteStore(Path(unquote(parts.path)), try_s)
    password = _password(setting, environ)
    authorities = "" if setting.authorities is None else os.fspath(setting.authorities)
    if parts.scheme in ("redis", "rediss"):
        from broker.budgets.redis import RedisStore  # noqa: PLC0415

        if parts.scheme == "redis":
            _stays_here(parts, "rediss://")
        return RedisStore(
            setting.url,
            setting.url,
            password=password,
            authorities=authorities,
            vouched=setting.vouched,
            try_s=try_s,
        )
    from broker.budgets.postgres import PostgresStore  # noqa: PLC0415

    if not authorities and "sslmode=verify-full" not in parts.query:
        _stays_here(parts, "`authorities`, or sslmode=verify-full in it")
    return PostgresStore(
        setting.url, setting.url, password=password, authorities=authorities, try_s=try_s
    )


def open_budget(url: str, *, holder: str = "", **more: str) -> SharedBudget:
    """
    Return a budget for a harness of one's own, to hand to ``from_scope`` or ``TicketGuard``.

    Args:
        url: as ``url`` of ``[budget]``.
        holder: a name that nobody else counts under; a random one by default.
        more: ``password_file``, ``password`` and ``authorities``, as in ``[budget]``.

    Raises:
        ConfigError, InputError, StoreError, UnverifiableError: as ``open_store``.
    """
    from broker.budgets.setting import read_setting  # noqa: PLC0415

    setting = read_setting({"url": url, **more}, Path.cwd())
    return SharedBudget(open_store(setting, os.environ), holder or os.urandom(16).hex())


def _password(setting: BudgetSetting, environ: Mapping[str, str]) -> str:
    if setting.password:
        found = environ.get(setting.password)
        if not found:
            raise ConfigError(
                f"the password of the shared budget is not in the environment: set "
                f"`{setting.password}`"
            )
        return found
    if setting.password_file is None:
        return ""
    fd = disk.open_checked(setting.password_file, "password file", forbidden=0o077)
    with os.fdopen(fd, "rb") as file:
        content = file.read(_MAX_PASSWORD_BYTES + 1)
    text = content.removesuffix(b"\n").decode("utf-8", "replace")
    if not text or len(content) > _MAX_PASSWORD_BYTES:
        raise ConfigError(f"`{setting.password_file}` holds no password")
    return text


def _stays_here(parts: SplitResult, instead: str) -> None:
    """Refuse a connection that anyone on the way could read and change."""
    host = parts.hostname or ""
    if host and host not in _LOCAL and not host.startswith("%2f"):
        raise ConfigError(
            f"`url` of `[budget]` reaches `{host}` without TLS, so anyone on the way could change "
            f"the counts: use {instead}"
        )
