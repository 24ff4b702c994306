"""
Secrets are taken out of what is written down, and nothing else is.

One room for every record that the broker keeps: receipts, the records of model calls, traces. In
the order to read them:

- ``names``      which names speak of a secret: ``apiKey``, ``DATABASE_URL``; not ``max_tokens``
- ``shapes``     which values are secrets by their own form, whatever their name
- ``commands``   secrets that follow an option of a well-known program
- ``texts``      where the secrets of a text are, in one linear pass
- ``hiding``     what stands in their place, and how many there were
- ``words``      the words of a command, which belong together
- ``trees``      JSON values, their paths, and the schemas that only speak of secrets
- ``streams``    server-sent events, whose secrets are cut in pieces
- ``bodies``     the bytes of a request or an answer, whatever they are

It is best effort by its nature: a secret without a name and without a known form is not found.
What proves what was sent is the digest, which is always taken over the bytes that were sent.
"""
