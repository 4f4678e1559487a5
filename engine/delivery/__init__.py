"""The way out of a job: its records are followed, forwarded to other jobs, and published to tenants."""
