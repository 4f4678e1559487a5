"""Dataflows that adapt: documents with alternates, guards and policies, and the decision which alternates run.

Pure, beside `merge` and `planning`: it knows documents, but neither what runs nor how. A document is read once, by
`adaptation.documents.dynamic_reader`. Each look at what runs then goes through `advance`, `permission`, `flow_of` and
`decide`, and if something changes, through `resolve`. Nothing is imported here: clients need a few names.
"""
