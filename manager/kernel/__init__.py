"""The kernel: what is committed, the one committer of changes, and what is seen of it while it runs."""
