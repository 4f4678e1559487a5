"""Dataflows that adapt: documents with alternates, guards and policies, and the decision which alternates run.

Pure, beside `merge` and `planning`: it knows documents, but neither what runs nor how. A document is read once, by
`adaptation.document_reader`. Each look at what runs then goes through `advance` of `adaptation.guard_states`, `flow_of`
of `adaptation.flow`, and `permission` and `decide` of `adaptation.decision`; and if something changes, through
`resolve` of `adaptation.documents`. Nothing is imported here: clients need a few names.
"""
