"""
Reading JSON that a caller supplied, so that one text never means two things.

Decided here: what is taken as JSON. A name given twice in one object is refused, since readers
disagree on which of the two counts, and what was approved must be what runs. Lone surrogates
are kept as they are.
"""

from __future__ import annotations

import gc
import json
import re

from broker.errors import InputError
from broker.limits import MAX_JSON_HOLDERS


def read_json(text: str) -> object:
    """
    Return the value that ``text`` holds.

    Raises:
        InputError: not one JSON text, nested too deeply, too many objects and lists, or a name
            given twice.

    >>> read_json('{"a": [1, null]}')
    {'a': [1, None]}
    >>> read_json('{"a": 1, "a": 2}')
    Traceback (most recent call last):
    broker.errors.InputError: `a` is given twice in one object
    """
    if text.count("{") + text.count("[") > MAX_JSON_HOLDERS and _holders(text) > MAX_JSON_HOLDERS:
        raise InputError(f"not readable: it holds more than {MAX_JSON_HOLDERS} objects and lists")
    collected = gc.isenabled()
    gc.disable()  # what is read holds no circles, and looking for them takes as long as reading
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
    finally:
        if collected:
            gc.enable()


def _holders(text: str) -> int:
    """Return how many objects and lists a JSON text holds, without those inside its strings."""
    bare = re.sub(r'"[^"\\]*(?:\\.[^"\\]*)*"', "", text, flags=re.DOTALL)
    return bare.count("{") + bare.count("[")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise InputError(f"`{name}` is given twice in one object")
            seen.add(name)
    return found
