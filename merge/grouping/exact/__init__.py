"""What the solver does: the model of a problem, its clusters, and any valid groups where heuristics find none."""
