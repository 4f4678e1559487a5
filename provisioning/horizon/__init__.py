"""Braid's own algorithm: alternates and machines are planned together over all predicted intervals.

`plan` does so on a fixed number of cores, by dynamic programming; `deployed` and `adapted` with machines that are
rented by the hour, where a linear program finds how much to start, to keep and to let go; `adapted_shared` does so
where all tasks share all cores. All take the union of dataflows that share tasks, so that the cost of a shared task
counts once.
"""

from provisioning.horizon.mixes import plan
from provisioning.horizon.rented import adapted, adapted_shared, deployed
