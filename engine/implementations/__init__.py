"""What computes the built-in tasks, a file per family as in `engine/tasks`.

Everything works on whole batches. Braid offers these through the entry point group `braid.behaviours`, the same way as
third parties do.
"""
