"""All opinions of a session: the strictest answer wins, and none ever loosens."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from broker.calls import ALLOW, Call, Decision, Refusal
from broker.limits import MAX_OPINION_QUESTIONS
from broker.opinions.counsel import UNHEARD, Counsel
from broker.opinions.opinion import Opined, Said
from broker.opinions.question import Consultation
from tests.pdpkit import path

CALL = Call("read", paths=(path("a"),), digest="ab")


class Saying:
    """An opinion that says one thing, and remembers what it was asked."""

    def __init__(self, name: str, answer: Opined | Exception) -> None:
        self.name = name
        self._answer = answer
        self.asked: list[Consultation] = []

    def ask(self, inquiry: Consultation) -> Opined:
        """Say it."""
        self.asked.append(inquiry)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def _counsel(*said: Said) -> Counsel:
    return Counsel([Saying(f"o{n}", Opined(s)) for n, s in enumerate(said)], "k3v", bytes)


@given(
    st.lists(st.sampled_from(["allow", "refuse", "none"]), max_size=4),
    st.sampled_from([ALLOW, Decision(Refusal("paths", "x", "y"))]),
)
def test_all_must_allow(said: list[Said], ticket: Decision) -> None:
    """A call passes exactly when the ticket and every opinion allow it."""
    weighing = _counsel(*said).about(CALL, "main")
    assert weighing.wanted == bool(said)
    assert weighing.weigh(ticket).allowed == (ticket.allowed and not said)
    if weighing.wanted:
        weighing.hear(lambda: CALL)
    assert not weighing.wanted
    last = weighing.weigh(ticket)
    assert last.allowed == (ticket.allowed and set(said) <= {"allow"})
    if ticket.allowed and not last.allowed:
        assert last.refusal is not None
        assert last.refusal.caveat == "opinion"
    if not ticket.allowed:
        assert last is ticket  # the ticket's own refusal stays its own


def test_the_first_that_does_not_allow_is_the_last_asked() -> None:
    """Nobody is asked for nothing, and the refusal names who refused."""
    asked = [Saying("a", Opined("allow")), Saying("b", Opined("refuse", reason="no")),
             Saying("c", Opined("allow"))]  # fmt: skip
    heard = Counsel(asked, "k3v", bytes).ask(CALL, "main", "9f2c")
    assert heard.refusal is not None
    assert (heard.refusal.caveat, heard.refusal.value) == ("opinion", "b")
    assert "`b` does not allow it: no; do not work around this" in heard.refusal.reason
    assert [name for name, _ in heard.answers] == ["a", "b"]
    assert [len(each.asked) for each in asked] == [1, 1, 0]


def test_a_model_is_not_told_why_there_is_no_answer() -> None:
    """The fault is in what is recorded, for the person, and not in the refusal."""
    fault = "it answers with status 503 at https://pdp.internal/"
    heard = Counsel([Saying("a", Opined("none", "1", fault=fault))], "k3v", bytes).ask(
        CALL, "main", "9f2c"
    )
    assert heard.refusal is not None
    assert "internal" not in heard.refusal.reason
    assert heard.data() == [{"name": "a", "said": "none", "asked": "1", "fault": fault}]
    assert heard.faults() == (("a", fault),)


def test_an_opinion_that_breaks_is_no_answer() -> None:
    """Whatever breaks while it is asked refuses the call."""
    heard = Counsel([Saying("a", RuntimeError("x"))], "k3v", bytes).ask(CALL, "main", "9f2c")
    assert heard.refusal is not None
    assert heard.faults() == (("a", "asking it failed inside (RuntimeError)"),)


def test_a_fault_is_recorded_without_secrets_and_well_formed() -> None:
    """What a server made of a fault can always be written into a receipt."""
    fault = "PASSWORD=hunter2 \ud800" + "x" * 999
    data = Counsel([Saying("a", Opined("none", fault=fault))], "k3v", bytes)
    said = str(data.ask(CALL, "main", "9f2c").data()[0]["fault"])
    assert "hunter2" not in said
    assert said.encode()
    assert len(said) <= 401


def test_too_much_to_ask() -> None:
    """A call that cannot be asked about is refused, and nobody is asked."""
    opinion = Saying("a", Opined("allow"))
    many = Call("read", paths=tuple(path(str(n)) for n in range(MAX_OPINION_QUESTIONS + 1)))
    heard = Counsel([opinion], "k3v", bytes).ask(many, "main", "9f2c")
    assert (heard.answers, opinion.asked) == ((), [])
    assert heard.refusal is not None
    assert "split it" in heard.refusal.reason


def test_what_changed_meanwhile_is_refused() -> None:
    """An opinion counts for what it was asked about, and not for where a link leads since."""
    weighing = _counsel("allow").about(CALL, "main")
    weighing.hear(lambda: replace(CALL, paths=(path("b"),)))
    refusal = weighing.weigh(ALLOW).refusal
    assert refusal is not None
    assert "changed" in refusal.reason


def test_each_inquiry_has_a_nonce_of_its_own() -> None:
    """Two inquiries about one call differ, so a digest tells nothing to who guesses."""
    numbers = iter(range(1, 9))
    opinion = Saying("a", Opined("allow"))
    counsel = Counsel([opinion], "k3v", lambda size: next(numbers).to_bytes(size, "big"))
    for _ in range(2):
        counsel.ask(CALL, "main", "9f2c")
    one, two = opinion.asked
    assert one.nonce != two.nonce
    assert len(one.nonce) == 32
    assert (one.session, one.ticket, one.actor, one.digest) == ("k3v", "9f2c", "main", "ab")


def test_unheard_is_a_refusal() -> None:
    """A call that a ticket allows now and refused a moment ago is refused unasked."""
    assert _counsel("allow").about(CALL, "main").weigh(ALLOW) is UNHEARD
    assert not UNHEARD.allowed
