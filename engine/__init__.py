"""A Spark host: the jobs it runs, the plans they execute, the library of tasks.

So far it holds the descriptions of the built-in task types and the catalogue of everything installed; jobs come next.
Begin with `installed_catalogue`.
"""

from engine.catalogue import BrokenTaskTypes, installed_catalogue

__all__ = ["BrokenTaskTypes", "installed_catalogue"]
