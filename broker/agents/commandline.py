"""
What a person typed on an agent's command line, looked at and added to.

Decided here: that nothing behind ``--`` is an option, and the two spellings of an option's
value. Not decided here: which options there are (each agent's own room).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from broker.errors import LaunchError


def options(command: Sequence[str]) -> list[str]:
    """Return the arguments up to ``--``, behind which nothing is an option."""
    arguments = list(command[1:])
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def value_of(arguments: Sequence[str], option: str) -> str | None:
    """Return the value of an option, in either spelling; an option without one is an error."""
    for at, argument in enumerate(arguments):
        if argument == option:
            if at + 1 == len(arguments):
                raise LaunchError(f"`{option}` has no value")
            return arguments[at + 1]
        if argument.startswith(option + "="):
            return argument[len(option) + 1 :]
    return None


def without(command: Sequence[str], option: str) -> list[str]:
    """Return the command without an option and its value."""
    kept: list[str] = []
    rest = list(command)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*kept, word, *rest]
        if word == option:
            rest = rest[1:]
        elif not word.startswith(option + "="):
            kept.append(word)
    return kept


def positional(arguments: Sequence[str], valued: Collection[str]) -> Iterator[str]:
    """
    Yield the words that are neither options nor their values.

    Args:
        arguments: what was typed behind the program's name.
        valued: the options that take the next word for their value.

    >>> list(positional(["-m", "x", "go", "--", "-n"], {"-m"}))
    ['go', '-n']
    """
    words = iter(arguments)
    for word in words:
        if word == "--":
            yield from words
        elif not word.startswith("-") or word == "-":
            yield word
        elif word in valued:
            next(words, None)


def refuse(arguments: Sequence[str], flags: Mapping[str, str]) -> None:
    """
    Refuse options that free an agent, with or without a value.

    Args:
        arguments: the options and what stands between them.
        flags: by the option, why it cannot be held.

    Raises:
        LaunchError: one of them is there.
    """
    for argument in arguments:
        why = flags.get(argument.partition("=")[0])
        if why is not None:
            raise LaunchError(f"`{argument}` cannot be held to a ticket: {why}")
