"""Tests of `broker.receipt.form`: what tells one chain from another."""

from __future__ import annotations

import pytest

from broker.errors import Break
from broker.receipt.chain import Chain, genesis
from broker.receipt.form import LEDGER, RECEIPT
from broker.receipt.head import HeadForm
from tests.receiptkit import KEY

WHEN = "2026-11-30T08:00:00.000Z"


def test_no_label_is_shared() -> None:
    """No use of one form can pass for a use of the other, nor of itself."""
    labels = [
        label
        for form in (RECEIPT, LEDGER)
        for label in (form.line_label, form.head_label, form.genesis_label)
    ]
    assert len(set(labels)) == 6


def test_a_line_of_one_form_is_no_line_of_the_other() -> None:
    """The same body under the same name and key is not authentic in the other form."""
    line = Chain("s1", KEY, form=LEDGER).compose("open", '{"format":"ledger/1"}', WHEN)
    Chain("s1", KEY, form=LEDGER).accept(line)
    with pytest.raises(Break) as broken:
        Chain("s1", KEY, form=RECEIPT).accept(line)
    assert broken.value.reason == "mac"


def test_a_head_of_one_form_is_no_head_of_the_other() -> None:
    """Heads of two forms differ in their tag and in what they link to."""
    first = HeadForm("s1", KEY, LEDGER).first()
    assert HeadForm("s1", KEY, LEDGER).read(first).head.n == 0
    with pytest.raises(Break) as broken:
        HeadForm("s1", KEY, RECEIPT).read(first)
    assert broken.value.reason == "head_mac"
    assert genesis("s1", LEDGER) != genesis("s1", RECEIPT)


def test_each_form_knows_its_own_kinds_only() -> None:
    """A kind of the ledger breaks a receipt although the tag is right, and the other way round."""
    for form, foreign in ((RECEIPT, "retire"), (LEDGER, "decision")):
        chain = Chain("s1", KEY, form=form)
        opening = chain.compose("open", f'{{"format":"{form.name}"}}', WHEN)
        chain.accept(opening)
        with pytest.raises(Break) as broken:
            chain.accept(chain.compose(foreign, "{}", WHEN))
        assert broken.value.reason == "kind"
