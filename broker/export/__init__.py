"""
A verified receipt in the formats of others: for a reader who has no verifier of ours.

The rooms, from the ground up:

- ``source``         one pass over a receipt: what is exported is what was verified
- ``fields``         reading what entries hold, and ids that are made from a line's hash
- ``spreadsheet``    CSV, with nothing in it that a spreadsheet would run
- ``otel``           OpenTelemetry log records, as OTLP JSON lines
- ``aat``            the Agent Audit Trail, an internet draft
- ``trail``          whether such a trail is whole
- ``didkey``         a public key as a name
- ``agent_receipts`` Agent Receipts v0.5, signed
- ``dsse``           the signing envelope
- ``intoto``         one in-toto statement about a whole receipt
- ``formats``        all of these, by the names that a person types
- ``compare``        whether an export still says what its receipt says
- ``outlet``         a file that appears whole or not at all
- ``bundle``         a folder that an auditor can check without this program

Rule a maintainer keeps: an export is a view. Each of its records carries the hash of the line
it was made from, and where the two differ the receipt is right.
"""
