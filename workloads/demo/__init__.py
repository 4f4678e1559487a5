"""The demo: RIoTBench replayed on two services side by side, one that shares and one that does not, as it happens.

Dataflows arrive one by one; one leaves and returns; what sharing saves is measured, and told in a report.
Begin with `playing`, which tells the order of it all, and with `programme`, which says who takes part.
"""
