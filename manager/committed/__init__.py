"""The committed state in memory: what runs for whom, in which jobs, by which plans, and what is under way."""
