"""
A ticket around plain functions: what the adapters of Python frameworks are made of.

>>> from broker.frameworks import guarded, session
>>> callable(guarded), callable(session)
(True, True)
"""

from broker.frameworks.functions import guarded
from broker.frameworks.holding import Holder, current, session

__all__ = ["Holder", "current", "guarded", "session"]
