"""Planning: what fills the open places of pipelines so that types fit and goals hold.

Pure, beside `merge`: it knows documents and task types, but neither what runs nor how. Start with
`planning.pipelines.planned`, or with `planning.planner` for the problem without documents. Nothing is imported here:
clients need a few names, and the solver, which `planning.model` and `planning.planner` import, takes half a second to
load.
"""
