"""
Reading JSON that a caller supplied, so that one text never means two things.

Decided here: what is taken as JSON. A name given twice in one object is refused, since readers
disagree on which of the two counts, and what was approved must be what runs. Lone surrogates
are kept as they are.
"""

from __future__ import annotations

import json

from broker.errors import InputError


def read_json(text: str) -> object:
    """
    Return the value that ``text`` holds.

    Raises:
        InputError: not one JSON text, nested too deeply, or a name given twice.

    >>> read_json('{"a": [1, null]}')
    {'a': [1, None]}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    broker.errors.InputError: `a` is given twice in one object
    """
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise InputError(
            f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}, at character {error.pos}"
        ) from None
    except RecursionError:
        raise InputError("not readable: nested too deeply") from None
    except InputError:
        raise
    except ValueError:
        # Python reads no whole number of more than 4300 digits.
        raise InputError("not readable: a number has too many digits") from None


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InputError(f"`{name}` is given twice in one object")
            seen.add(name)
    return found
