"""PDDL, as far as it does not matter what is planned: names, the two texts of a problem, and how actions are written.

`planning.pddl` says planning problems in it, and `merge.grouping.pddl` grouping problems.
"""
