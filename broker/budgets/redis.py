"""
A store on a Redis or Valkey server.

Decided here: where things lie on the server, and what is asked of it before it is trusted with
counts: each change on its disk before it is answered (``appendonly``, ``appendfsync always``), and
nothing dropped when its memory is full. One request is one script (``ruling.lua``), so one step of
the server.

Rules a maintainer keeps: the client library tries nothing again by itself; a server whose settings
may not be looked at is used only where the person vouched for it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, Final, TypeVar

from broker.budgets.ruling import Kind, Reservation, StoreAnswer
from broker.budgets.store import Revoked, unreachable
from broker.errors import ConfigError, InputError

T = TypeVar("T")
PREFIX: Final = "{broker}:"
NEEDED: Final = {"appendonly": "yes", "appendfsync": "always", "maxmemory-policy": "noeviction"}
_KINDS: Final[dict[str, Kind]] = {
    kind: kind for kind in ("granted", "full", "revoked", "lost", "stale")
}


class RedisStore:
    """
    Counts and revocations on a server.

    Args:
        name: its address without a password, for messages.
        url: ``redis://`` or, with TLS, ``rediss://``.
        password: what the server asks for, or nothing.
        authorities: the file of the authorities that the server's certificate is held to.
        vouched: the person says that the server keeps what it answers; its settings are not asked.
        try_s: the longest wait for one answer.

    Raises:
        InputError: the client library is not installed, or the address is none.
        ConfigError: the server forgets what it has answered.
        StoreError: it cannot be asked.
    """

    def __init__(
        self,
        name: str,
        url: str,
        *,
        password: str = "",
        authorities: str = "",
        vouched: bool = False,
        try_s: float,
    ) -> None:
        try:
            import redis  # noqa: PLC0415  of the extra `redis`
            from redis.backoff import NoBackoff  # noqa: PLC0415
            from redis.retry import Retry  # noqa: PLC0415
        except ImportError as error:
            raise InputError(
                "a budget on a Redis server needs its client: pip install "
                "'capability-broker[redis]'"
            ) from error
        more: dict[str, Any] = {"password": password} if password else {}
        if authorities:
            more["ssl_ca_certs"] = authorities
        self.name = name
        self._failed: tuple[type[Exception], ...] = (redis.RedisError, OSError)
        try:
            self._server: Any = redis.Redis.from_url(
                url,
                decode_responses=True,
                socket_timeout=try_s,
                socket_connect_timeout=try_s,
                retry=Retry(NoBackoff(), 0),
                single_connection_client=False,
                **more,
            )
        except ValueError as error:
            raise InputError(f"`{name}` is no address of a Redis server: {error}") from error
        self._script: Any = self._server.register_script(
            files("broker.budgets").joinpath("ruling.lua").read_text(encoding="utf-8")
        )
        if not vouched:
            self._keeps(redis.ResponseError)

    def begin(self, tree: str, holder: str) -> bool:
        """Make a tree; see ``Store``."""

        def work() -> bool:
            # Three commands in one step: the first who names the tree has begun it.
            step = self._server.pipeline(transaction=True)
            step.hsetnx(_tree(tree), "begun_by", holder)
            step.hsetnx(_tree(tree), "lost", "")
            step.hget(_tree(tree), "begun_by")
            step.setnx(f"{PREFIX}count:{tree}", 0)
            return bool(step.execute()[2] == holder)

        return self._asked(work)

    def join(self, holder: str, at_least: int, trees: tuple[str, ...]) -> tuple[StoreAnswer, int]:
        """Begin or go on as a holder; see ``Store``."""
        return self._ruled("join", holder, 0, at_least, trees=trees)

    def reserve(self, asked: Reservation) -> StoreAnswer:
        """Count a call; see ``Store``."""
        return self._ruled(
            "reserve",
            asked.holder,
            asked.number,
            asked.known,
            cost=asked.cost,
            trees=asked.trees,
            line=asked.line,
            limits=asked.limits,
        )[0]

    def refund(self, holder: str, number: int) -> StoreAnswer:
        """Take a call back; see ``Store``."""
        return self._ruled("refund", holder, number, 0)[0]

    def counts(self, line: tuple[str, ...]) -> tuple[int, ...] | None:
        """Return the counts of links; see ``Store``."""
        keys = [f"{PREFIX}count:{link}" for link in line]
        found = self._asked(lambda: self._server.mget(keys))
        if all(count is None for count in found):
            return None
        return tuple(int(count or 0) for count in found)

    def revoke(self, revoked: Revoked) -> bool:
        """Revoke a ticket; see ``Store``."""

        def work() -> bool:
            key = f"{PREFIX}revoked:{revoked.ticket}"
            step = self._server.pipeline(transaction=True)
            step.hsetnx(key, "reason", revoked.reason)
            step.hsetnx(key, "at", revoked.at)
            return bool(step.execute()[0])

        return self._asked(work)

    def revoked(self, line: tuple[str, ...]) -> Revoked | None:
        """Return the first link that is revoked; see ``Store``."""

        def work() -> list[dict[str, str]]:
            step = self._server.pipeline(transaction=True)
            for link in line:
                step.hgetall(f"{PREFIX}revoked:{link}")
            return list(step.execute())

        for link, found in zip(line, self._asked(work), strict=True):
            if found:
                return Revoked(link, found["reason"], int(found["at"]))
        return None

    def close(self) -> None:
        """Close the connections."""
        self._server.close()

    def _ruled(
        self,
        request: str,
        holder: str,
        number: int,
        known: int,
        *,
        cost: int = 0,
        trees: tuple[str, ...] = (),
        line: tuple[str, ...] = (),
        limits: tuple[int | None, ...] = (),
    ) -> tuple[StoreAnswer, int]:
        keys = [
            f"{PREFIX}holder:{holder}",
            *map(_tree, trees),
            *[f"{PREFIX}count:{link}" for link in line],
            *[f"{PREFIX}revoked:{link}" for link in line],
        ]
        asked = [request, holder, number, known, cost, len(trees), len(line), *trees, *line]
        asked += ["-" if limit is None else limit for limit in limits]
        kind, base, link, why, *before = self._asked(lambda: self._script(keys, asked))
        return StoreAnswer(_KINDS[kind], tuple(map(int, before)), link, why), int(base)

    def _asked(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except self._failed as error:
            raise unreachable(self.name, error) from error

    def _keeps(self, refused: type[Exception]) -> None:
        """
        Check that the server keeps what it has answered.

        Raises:
            ConfigError: it does not, or will not say.
            StoreError: it cannot be asked.
        """
        try:
            found = self._server.config_get(*NEEDED)
        except refused:
            raise ConfigError(
                f"`{self.name}` does not tell how it is set: where you know that it has "
                f"{_said(NEEDED)}, write `vouched = true` under `[budget]`"
            ) from None
        except self._failed as error:
            raise unreachable(self.name, error) from error
        wrong = {key: value for key, value in NEEDED.items() if found.get(key) != value}
        if wrong:
            raise ConfigError(
                f"`{self.name}` may forget calls that were counted: set {_said(wrong)} there"
            )


def _tree(tree: str) -> str:
    return f"{PREFIX}tree:{tree}"


def _said(settings: dict[str, str]) -> str:
    return ", ".join(f"`{key} {value}`" for key, value in settings.items())
