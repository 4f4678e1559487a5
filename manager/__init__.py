"""The service: REST, store, tenants, reconciler, client, reports, console, command line.

So far it holds the command line, `braid`, and no service behind it.
Begin with `manager.command`.
"""
