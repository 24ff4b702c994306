"""
Every error the broker raises, and its stable code.

The class says who must act; the code says what happened; the message is for people and is
never parsed. Expiry, a spent budget and an unmet caveat are *decisions*, not errors: they
come back from ``authorize`` as a ``Decision`` (see ``broker.calls``).

Messages are one line, lower case, without a final period; what the user typed stands in
backticks.
"""

from __future__ import annotations


class BrokerError(Exception):
    """
    The base of every error of this package. Never raised itself.

    ``code`` is stable across releases; ``detail`` holds what a program may want to read.
    """

    code = "broker"

    def __init__(self, message: str, *, code: str | None = None, **detail: object) -> None:
        super().__init__(message)
        self.message = message
        if code is not None:
            self.code = code
        self.detail = detail


class InputError(BrokerError, ValueError):
    """What the caller gave is malformed; the caller mends the input."""

    code = "input"


class PatternError(InputError):
    """A path, tool or host pattern is malformed at ``offset`` (characters, from 0)."""

    code = "pattern"

    def __init__(self, message: str, offset: int = 0, hint: str | None = None) -> None:
        super().__init__(message, offset=offset, hint=hint)
        self.offset = offset
        self.hint = hint


class ScopeError(InputError):
    """
    A scope text is malformed.

    ``where`` names the policy file and line, if the text comes from one. ``str(error)`` is one
    line; ``pointed()`` adds the text with a caret under the place.
    """

    code = "scope"

    def __init__(
        self,
        message: str,
        *,
        text: str = "",
        offset: int = 0,
        hint: str | None = None,
        where: str | None = None,
    ) -> None:
        super().__init__(message, text=text, offset=offset, hint=hint, where=where)
        self.text = text
        self.offset = offset
        self.hint = hint
        self.where = where

    def __str__(self) -> str:
        return self.message if self.where is None else f"{self.where}: {self.message}"

    def pointed(self) -> str:
        """
        Return the message, the text and a caret under the place, and the hint, in lines.

        >>> print(ScopeError("no such key `path`", text="path=src", hint="paths").pointed())
        no such key `path`
          path=src
          ^
          did you mean `paths`?
        """
        start = max(0, self.offset - 60)
        shown = self.text[start : start + 120]
        plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in shown)
        lines = [str(self)]
        if plain:
            lines += ["  " + plain, "  " + " " * (self.offset - start) + "^"]
        if self.hint is not None:
            spelled = f"did you mean `{self.hint}`?" if " " not in self.hint else self.hint
            lines.append("  " + spelled)
        return "\n".join(lines)


class PolicyError(InputError):
    """A policy file is well-formed but wrong: a failed expectation, an unknown name."""

    code = "policy"


class CatalogError(InputError):
    """A catalog file says something the broker does not understand; names file and line."""

    code = "catalog"


class ConfigError(InputError):
    """The configuration file says something the broker does not understand."""

    code = "config"


class TicketFormatError(InputError):
    """A ticket's wire form cannot be read."""

    code = "ticket.format"


class RecordError(InputError):
    """A value cannot be written into a receipt: it lies outside the restricted data model."""

    code = "receipt.record"


class LimitError(InputError):
    """Something exceeds a ceiling of ``broker.limits``; ``detail`` names it."""

    code = "limit"


class VerificationError(BrokerError):
    """Well-formed, but not to be believed. Trying again changes nothing."""

    code = "verification"


class TicketVerificationError(VerificationError):
    """A ticket's MAC chain is broken, or a link permits more than the one before it."""

    code = "ticket.verification"


class Break(VerificationError):
    """
    The first place where a receipt stops being what was signed.

    ``line`` counts from 0; ``offset`` is the byte offset of that line in the file.
    """

    code = "receipt.break"

    def __init__(self, reason: str, message: str, *, line: int = 0, offset: int = 0) -> None:
        super().__init__(message, reason=reason, line=line, offset=offset)
        self.reason = reason
        self.line = line
        self.offset = offset


class UnverifiableError(BrokerError):
    """Could not verify safely: a missing key, an unsafe file, nothing to verify (exit 2)."""

    code = "unverifiable"


class AttenuationError(BrokerError):
    """A derived ticket would permit more than its parent; ``kind`` names the caveat."""

    code = "attenuation"

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message, kind=kind)
        self.kind = kind


class StoreError(BrokerError):
    """Reading or writing failed; the answer is refuse meanwhile."""

    code = "store"


class FatalStoreError(StoreError):
    """The state on disk is unknown; the session ends and every further call is refused."""

    code = "store.fatal"


class TraceError(BrokerError):
    """A run's recording cannot be written, or what was read is none that can be believed."""

    code = "trace"


class LaunchError(BrokerError):
    """The agent could not be started under its ticket."""

    code = "launch"


class CapabilityError(BrokerError):
    """A capability of the harness is not there, or was not given; the caller goes without."""

    code = "capability"


class ModelError(BrokerError):
    """A model did not answer; ``kind`` is one of the eight words of ``broker.records.failures``."""

    code = "model"

    def __init__(self, message: str, *, kind: str) -> None:
        super().__init__(message, code=f"model.{kind}", kind=kind)
        self.kind = kind


class Refused(BrokerError):
    """Raised by ``enforce`` only; carries the refusing decision."""

    code = "refused"
