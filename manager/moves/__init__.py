"""Moves of tasks from job to job: to save cores, to isolate a tenant, and to give jobs shards and paces."""
