"""The code of the built-in tasks, a file per family as in `engine/tasks`; published code has a room, `engine.code`.

Everything works on whole batches. Braid provides these behaviours through the entry point group `braid.behaviours`, as
third parties do.
"""
