"""
Credentials: the secrets that a person lets the harness use, by name.

Decided here: who may be asked for a secret. Without a word of the person nobody is: the default
knows no name and denies every one. Not decided here: what a secret is used for.

Rules a maintainer keeps: a secret has no text of its own, so that it is not printed, logged or
put into a record by mistake; only a name that the person listed is ever looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final, NoReturn, Protocol

from broker.errors import CapabilityError

SERVICE: Final = "capability-broker"  # under which an OS keychain keeps the broker's secrets


class Secret:
    """
    A secret that shows itself only when it is asked to.

    >>> Secret("s3cr3t")
    Secret(…)
    >>> f"{Secret('s3cr3t')}"
    'Secret(…)'
    """

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the secret itself."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(…)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")


class Credentials(Protocol):
    """What knows secrets."""

    @property
    def kind(self) -> str:
        """Which credentials these are: ``empty``, ``keyring`` or ``fake``."""

    def names(self) -> tuple[str, ...]:
        """Return the names that may be asked for, sorted."""

    def get(self, name: str) -> Secret:
        """Return a secret; ``CapabilityError`` when there is none or it may not be asked for."""


class NoCredentials:
    """
    The default: no secret at all.

    >>> NoCredentials().get("anthropic")
    Traceback (most recent call last):
    broker.errors.CapabilityError: no credential `anthropic`: this run was given none
    """

    __slots__ = ()
    kind: ClassVar = "empty"

    def names(self) -> tuple[str, ...]:
        """Return no name."""
        return ()

    def get(self, name: str) -> Secret:
        """
        Deny.

        Raises:
            CapabilityError: always (``capability.denied``).
        """
        raise _denied(name, "this run was given none")


class KeyringCredentials:
    """
    The keychain of the person's system, for the names that they listed.

    It needs the extra ``keyring``. The person puts a secret there with
    ``keyring set capability-broker NAME``.
    """

    __slots__ = ("_names",)
    kind: ClassVar = "keyring"

    def __init__(self, names: Iterable[str]) -> None:
        self._names = tuple(sorted(set(names)))

    def names(self) -> tuple[str, ...]:
        """Return the names that the person listed, sorted."""
        return self._names

    def get(self, name: str) -> Secret:
        """
        Return a secret of the keychain.

        Raises:
            CapabilityError: the name is not listed (``capability.denied``), or the keychain has
                none, is locked or is not there (``capability.unavailable``).
        """
        if name not in self._names:
            raise _denied(name, f"only {', '.join(self._names) or 'nothing'} is listed")
        try:
            import keyring  # noqa: PLC0415  an extra, loaded by whoever chose it
            from keyring.errors import KeyringError  # noqa: PLC0415
        except ImportError as error:
            raise CapabilityError(
                f"no credential `{name}`: install the extra `keyring`",
                code="capability.unavailable",
            ) from error
        try:
            value = keyring.get_password(SERVICE, name)
        except KeyringError as error:
            raise CapabilityError(
                f"no credential `{name}`: the keychain says {error}", code="capability.unavailable"
            ) from error
        if value is None:
            raise CapabilityError(
                f"no credential `{name}`: set it with `keyring set {SERVICE} {name}`",
                code="capability.unavailable",
            )
        return Secret(value)


class SeededCredentials:
    """
    Credentials that a test gives.

    >>> SeededCredentials({"a": "x"}).get("a").reveal()
    'x'
    """

    __slots__ = ("_seeds",)
    kind: ClassVar = "fake"

    def __init__(self, seeds: Mapping[str, str]) -> None:
        self._seeds = dict(seeds)

    def names(self) -> tuple[str, ...]:
        """Return the names that were given, sorted."""
        return tuple(sorted(self._seeds))

    def get(self, name: str) -> Secret:
        """
        Return what was given.

        Raises:
            CapabilityError: nothing was (``capability.denied``).
        """
        if name not in self._seeds:
            raise _denied(name, "the test gave none")
        return Secret(self._seeds[name])


def _denied(name: str, why: str) -> CapabilityError:
    return CapabilityError(f"no credential `{name}`: {why}", code="capability.denied")
