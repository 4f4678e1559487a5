"""Reconfigurations on a service that runs, see `__main__`."""
