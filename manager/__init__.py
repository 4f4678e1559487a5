"""The service: REST, store, tenants, reconciler, client, reports, console, command line.

`manager.process.manager` puts the service together, `manager.service` has the use cases in groups, and
`manager.kernel.committer` commits changes, one after the other. `manager.command` is the command `braid`.
"""
