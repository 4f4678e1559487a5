"""Machines, their disks, a broker and leaders in one thread, where a seed decides what is delivered and what fails.

`files.py` has disks, `carrier.py` a host at its machine, `machine.py` the process around it and its copies of other
hosts. `broker.py` and `leader.py` decide by the real `ring.decision`. `world.py` is all of it with what may be observed
from outside, `faults.py` what happens to it, `runs.py` plays one seed. `defects.py` leaves out one rule each.
"""
