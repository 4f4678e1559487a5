"""The use cases about what runs, and where: tasks, jobs, streams, hosts, and the machines that carry hosts."""
