"""Dynamic dataflows: resolved when they are submitted, shown, steered by hand, and adapted while they run."""
