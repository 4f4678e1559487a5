"""The service: REST, store, tenants, reconciler, client, reports, console, command line.

`manager.process.manager` puts the service together, `manager.service` has the use cases in groups, and
`manager.committer` turns each request into a committed change. `manager.command` is the command `braid`.
"""
