"""
Anchors: copies of a checkpoint that lie where the owner of this machine cannot take them back.

- ``anchor``     what an anchor is, and what it answers
- ``git``        a branch of a git remote
- ``timestamp``  a token of a time-stamping authority (RFC 3161)
- ``witness``    a cosignature of a C2SP witness
- ``evidence``   what anchors answered, kept beside the receipts
- ``submitting`` handing checkpoints in, without anybody waiting for it
"""
