"""
The same ticket, held by the kernel for every process that an agent starts.

``plan`` turns a ticket and a workspace into trees and hosts; an engine (``bubblewrap``,
``landlock``) makes walls of them; ``egress`` is the only way out; ``canary`` proves the walls
before the agent runs; ``launching`` ties them to a run.
"""
