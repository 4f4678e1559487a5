"""The overview of a service: how much there is, the journal, the task types, and metrics."""
