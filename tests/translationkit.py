"""Questions and answers of any content, for tests of what is told between providers."""

from __future__ import annotations

import json
from typing import Final

from hypothesis import strategies as st

from broker.replay.translation.talk import (
    AnswerBegan,
    AnswerEnded,
    AnswerPiece,
    CallBegan,
    CallCame,
    CallPart,
    ImagePart,
    ModelQuestion,
    OfferedTool,
    ResultPart,
    SpokenTurn,
    TextCame,
    TextPart,
    TokenCounts,
)

NAMES: Final = ("read", "edit_file", "mcp__notes__look")
_WORDS = st.text(min_size=1, max_size=20)
_NAME = st.sampled_from(NAMES)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_WORDS, inner, max_size=2),
    max_leaves=4,
)
ARGUMENTS = st.dictionaries(_WORDS, _VALUES, max_size=3)
_TEXT = st.builds(TextPart, _WORDS)
_IMAGE = st.builds(ImagePart, st.sampled_from(["image/png", "image/jpeg"]), st.just("aGk="))


@st.composite
def questions(draw: st.DrawFn, *, images: bool = True) -> ModelQuestion:
    """A question as agents ask it: who asks begins, and each call has its result."""
    turns = [SpokenTurn("user", (draw(_TEXT),))]
    for n in range(draw(st.integers(0, 3))):
        calls = [
            CallPart(f"call_{n}_{at}", draw(_NAME), draw(ARGUMENTS))
            for at in range(draw(st.integers(0, 2)))
        ]
        said = draw(st.lists(_TEXT, min_size=0 if calls else 1, max_size=1))
        turns.append(SpokenTurn("model", (*said, *calls)))
        results = tuple(
            ResultPart(call.id, tuple(draw(st.lists(_TEXT, min_size=1, max_size=1))))
            for call in calls
        )
        more = st.lists(_TEXT | _IMAGE if images else _TEXT, min_size=0 if calls else 1, max_size=2)
        turns.append(SpokenTurn("user", (*results, *draw(more))))
    tools = tuple(OfferedTool(name, "about", {"type": "object"}) for name in NAMES)
    return ModelQuestion(
        draw(st.text(max_size=20)),
        tuple(turns),
        tools,
        draw(st.sampled_from(["auto", "any", "none", "=read"])),
        draw(st.booleans()),
        draw(st.integers(1, 9_000)),
        (),
        draw(st.none() | st.just({"type": "object", "properties": {}})),
        draw(st.booleans()),
    )


@st.composite
def answers(draw: st.DrawFn) -> list[AnswerPiece]:
    """An answer in pieces: text, and calls whose arguments come in parts."""
    counts = TokenCounts(draw(st.integers(5, 99)), draw(st.integers(0, 5)), draw(st.integers(1, 9)))
    found: list[AnswerPiece] = [AnswerBegan("answer_1")]
    found += [TextCame(text) for text in draw(st.lists(_WORDS, max_size=3))]
    calls = draw(st.lists(st.tuples(_NAME, ARGUMENTS), max_size=3))
    for at, (name, arguments) in enumerate(calls, 1):
        text = json.dumps(arguments)
        cut = draw(st.integers(0, len(text)))
        found.append(CallBegan(at, f"call_{at}", name))
        found += [CallCame(at, part) for part in (text[:cut], text[cut:]) if part]
    stop = "tools" if calls else draw(st.sampled_from(["end", "length", "refusal"]))
    return [*found, AnswerEnded(stop, counts)]  # type: ignore[arg-type]  # one of the four


def summed(pieces: list[AnswerPiece]) -> tuple[object, ...]:
    """Return what an answer comes to, however it was cut into pieces."""
    calls: dict[int, list[str]] = {}
    text, end = "", None
    for piece in pieces:
        if isinstance(piece, TextCame):
            text += piece.text
        elif isinstance(piece, CallBegan):
            calls[piece.at] = [piece.id, piece.name, ""]
        elif isinstance(piece, CallCame):
            calls[piece.at][2] += piece.text
        elif isinstance(piece, AnswerEnded):
            end = piece
    return text, [(*each[:2], json.loads(each[2] or "{}")) for each in calls.values()], end
