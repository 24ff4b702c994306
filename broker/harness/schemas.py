"""
JSON Schemas of tools: whether arguments fit them, and what they fill in.

Decided here: that a schema stands for itself. It may not point anywhere outside, since looking
there would reach the world before anything was decided. Not decided here: what fits, which
``jsonschema-rs`` says.

A rule a maintainer keeps: what cannot be validated does not fit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NoReturn

from broker.boundary import contained
from broker.errors import InputError

if TYPE_CHECKING:
    import jsonschema_rs

_MAX_FAULT_CHARS: Final = 300


class Schema:
    """
    One compiled schema.

    Args:
        schema: a JSON Schema; without ``$schema`` it is of draft 2020-12.
        name: the tool's, for messages.

    Raises:
        InputError: it is no schema, or the extra ``harness`` is not installed.

    >>> schema = Schema({"type": "object", "required": ["path"]}, "read")
    >>> schema.fault({})
    '"path" is a required property'
    """

    __slots__ = ("_defaults", "_validator")

    def __init__(self, schema: Mapping[str, object], name: str) -> None:
        try:
            import jsonschema_rs  # noqa: PLC0415  an extra, loaded by whoever registers a tool
        except ImportError as error:
            raise InputError(
                "the harness needs its extra: install `capability-broker[harness]`"
            ) from error
        try:
            built = jsonschema_rs.validator_for(dict(schema), retriever=_nowhere)
        except (jsonschema_rs.ValidationError, ValueError, TypeError, RecursionError) as error:
            why = next(iter(str(error).strip().splitlines()), "it is none")
            raise InputError(
                f"the schema of `{name}` cannot be used: {why[:_MAX_FAULT_CHARS]}"
            ) from error
        self._validator: jsonschema_rs.Validator = built
        properties = schema.get("properties")
        self._defaults = {
            key: json.dumps(about["default"])
            for key, about in (properties.items() if isinstance(properties, Mapping) else ())
            if isinstance(about, Mapping) and "default" in about
        }

    def fault(self, arguments: object) -> str | None:
        """Return why arguments do not fit, or None."""
        return contained(partial(self._fault, arguments), _unreadable)

    def _fault(self, arguments: object) -> str | None:
        if self._validator.is_valid(arguments):
            return None
        for error in self._validator.iter_errors(arguments):
            place = "/".join(str(part) for part in error.instance_path)
            said = f"`{place}`: {error.message}" if place else str(error.message)
            return said if len(said) <= _MAX_FAULT_CHARS else said[:_MAX_FAULT_CHARS] + "…"
        return "they do not fit"

    def fill(self, arguments: dict[str, object]) -> bool:
        """Put the schema's defaults where nothing was given; return whether there were any."""
        filled = False
        for key, text in self._defaults.items():
            if key not in arguments:
                arguments[key] = json.loads(text)
                filled = True
        return filled


def _nowhere(uri: str) -> NoReturn:
    raise InputError(f"it points outside of itself, at `{uri}`")


def _unreadable(error: Exception) -> str:
    return f"they cannot be validated: {type(error).__name__}"
