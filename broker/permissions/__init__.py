"""
The permission rules that come after the ticket, for harnesses that have none of their own.

In the order to read them: ``effects`` (what kinds of effect a call has), ``modes`` (what each mode
answers to them), ``hard`` with ``commands`` and ``places`` (what no mode lifts), ``rules`` (all of
it, for one call), ``depth`` (subagents).

The ticket only vetoes. A harness asks it first, and asks here only when it allowed: what is
answered here never softens a ticket's refusal.
"""
