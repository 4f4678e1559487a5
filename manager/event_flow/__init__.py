"""Events over REST: into the spools of sources, exactly once, and out of the outputs of dataflows, live."""
