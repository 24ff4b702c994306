"""
For authors of a harness: a whole run on fakes, and everything that it left behind.

- ``replay``    ``create_replay_runtime``: the production composition, a fake world, a script
- ``provider``  the scripted provider, and the model that asks it over HTTP
- ``fixtures``  the same as pytest fixtures: ``pytest_plugins = ["broker.testing.fixtures"]``

It needs the extra ``harness``.
"""
