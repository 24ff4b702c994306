"""A reader of sandbox profiles: a naive one, to say what a generated profile permits."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

Form = str | list["Form"]  # a quoted text keeps its opening quote

_TOKEN = re.compile(r"""\s*(?:([()])|(\#?"(?:[^"\\]|\\.)*")|([^\s()"]+))""")


def forms(text: str) -> list[Form]:
    """Return a profile's forms; whatever is no such text raises ValueError."""
    stack: list[list[Form]] = [[]]
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise ValueError(text[at : at + 40])
        at = found.end()
        bracket, string, word = found.groups()
        if bracket == "(":
            stack.append([])
        elif bracket == ")":
            inner = stack.pop()
            stack[-1].append(inner)
        elif string and string.startswith("#"):
            stack[-1].append('"' + string[2:-1])  # what is in a regex is not unescaped
        elif string:
            stack[-1].append('"' + re.sub(r"\\(.)", r"\1", string[1:-1]))
        else:
            stack[-1].append(word)
    if len(stack) != 1:
        raise ValueError("brackets")
    return stack[0]


@dataclass(frozen=True)
class Rule:
    """One rule: an answer, the operations that it is of, and filters, of which one is enough."""

    answer: str
    operations: tuple[str, ...]
    filters: tuple[Form, ...]

    def of(self, operation: str) -> bool:
        """Whether it is of an operation."""
        return any(o == "default" or fnmatchcase(operation, o) for o in self.operations)

    def fits(self, operation: str, path: str) -> bool:
        """Whether it says something of an operation on a path."""
        return self.of(operation) and (
            not self.filters or any(_fits(each, path) for each in self.filters)
        )


def rules(text: str) -> list[Rule]:
    """Return a profile's rules, in their order."""
    version, *found = forms(text)
    assert version == ["version", "1"]
    read = []
    for form in found:
        assert isinstance(form, list)
        answer, *rest = form
        assert answer in ("allow", "deny")
        operations = tuple(o for o in rest if isinstance(o, str))
        read.append(Rule(str(answer), operations, tuple(f for f in rest if isinstance(f, list))))
    return read


def permits(found: list[Rule], operation: str, path: str) -> bool:
    """Say what the rules answer: the last one that fits counts."""
    answers = [rule.answer for rule in found if rule.fits(operation, path)]
    return answers[-1] == "allow"


def _fits(form: Form, path: str) -> bool:
    kind, *given = form
    if kind == "require-all":
        return all(_fits(each, path) for each in given)
    if kind not in ("literal", "subpath", "regex"):
        return False  # no filter of paths
    text = str(given[0])[1:]
    if kind == "regex":
        return re.search(text, path) is not None
    inside = kind == "subpath" and f"{path}/".startswith(f"{text.rstrip('/')}/")
    return path == text or inside
