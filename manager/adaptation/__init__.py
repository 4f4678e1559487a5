"""Dynamic dataflows: resolved when they are submitted, and adapted while they run."""
