"""PDDL: planning problems as texts that other planners read, and back.

`planning.pddl.pddl_export` writes; `planning.pddl.pddl_import` reads, with the library unified-planning (extra `pddl`).
Vertices are filled in their order. Each goes through the stages ready, entered, filled and settled, by these actions:

- `meet` makes several streams or ports one place. Variables that are equal on all are copied.
- `take` chooses the stream from which such a place has a variable, by the rule `either`.
- `enter` asks what the pipeline requires there.
- `fill` takes an option, asks what it requires, copies what it does not affect, and has its cost.
- `choose` gives a variable that the option affects one of its values.
- `settle` asks what the option ensures.
- `leave` asks what the pipeline wants there, and makes the next vertex ready.

What PDDL cannot say of a problem and every plan depends on is refused: that a vertex holds the `same` as another, and
streams that meet with different types. What only other criteria than the cost ask is left out: residue and what runs,
quality, changes and what is present, no-ops and modules. So are the names of goals, and whether a vertex is open.
"""
