"""The demo: a service at work on the bundled examples, shown as it happens.

It serves, has tenants submit and remove, listens to what they get, and measures what sharing saves.
Begin with `playing`, which tells the order of it all.
"""
