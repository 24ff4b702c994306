"""
Receipts elsewhere: a copy at any store that fsspec reaches, and those of many machines there.

A mirror is a copy that a machine's owner cannot quietly take back, as far as the store lets nobody
change what lies in it. The receipt on the machine stays the truth. See ``docs/fleet.md`` and
ADR-0044.
"""
