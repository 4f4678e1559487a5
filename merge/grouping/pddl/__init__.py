"""PDDL: grouping problems as texts that other planners read, and their plans back as groupings.

The scheme is that of the paper: a group is opened, tasks are put into it, and it is closed; then the next one.

- `open` takes the next group, has it use an image, and costs what a group costs.
- `put` puts a task into the open group: its parents are placed, the image offers its tags, the group has room, holds no
  other owner's code, and nothing that is too much for any group. So no groups wait for each other.
- `close` makes room for the next one.
- `within` counts a stream within a group, `bridge` what a group takes from a port of another group's task, and `over` a
  stream that comes over a bridge. Every stream must be counted, unless it is raw.

What is left out: the slowest path, and starts and prices of hosts. Present groups are refused.
`merge.grouping.pddl.grouping_export` writes, `merge.grouping.pddl.replay` carries out any plan of any problem by the
texts alone, and `merge.grouping.pddl.grouping_import` reads a plan as a grouping.
"""
