"""The demo: RIoTBench replayed on two services side by side, one that shares tasks and one that does not.

Begin with `command`, which runs it, and `scenario`, which says which dataflows take part.
"""
