"""From requests to committed changes: the state in memory, the draft of a change, and the one committer."""
