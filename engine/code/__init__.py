"""Code that tenants publish: its sources in the root, what it makes of events, and the processes that it runs in.

A source is named by its digest. Code that no operator vouches for runs in a cell: a process of its own for each batch
of a task, without network, files and credentials. `engine.code.cell` is what runs there, and imports nothing of Braid.
"""
