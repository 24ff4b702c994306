"""
Counts and revocations that several machines share.

- ``ruling`` what is decided of one request: pure, and the same for every store
- ``store`` what a store can do, and how it says that it cannot be asked
- ``memory`` a store for the threads of one process
- ``sqlite`` a file, for the processes of one machine
- ``redis`` a Redis or Valkey server; ``ruling.lua`` is its ``ruling``
- ``postgres`` a PostgreSQL server
- ``setting`` the table ``[budget]`` of the configuration
- ``opening`` which store an address means
- ``shared`` the budget that asks a store: deadlines, tries, and what is still open
"""
