"""Dataflows that adapt: documents with alternates, guards and policies, and the decision which alternates run.

Pure, beside `merge` and `planning`: it knows documents, but neither what runs nor how. Start with
`adaptation.documents.dynamic_reader`. Nothing is imported here: clients need a few names.
"""
