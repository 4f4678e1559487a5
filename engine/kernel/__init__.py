"""The kernel: a worker runs the tasks of a plan over the events of one batch."""
