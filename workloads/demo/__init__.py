"""The demo: RIoTBench replayed on two services side by side, one that shares and one that does not, as it happens.

Dataflows arrive one by one; one leaves and returns; what sharing saves is measured, and told in a report.
Begin with `command`, which tells the order of it all, and with `scenario`, which says who takes part.
"""
