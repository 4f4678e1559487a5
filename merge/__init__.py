"""The running graph and the jobs: merge and unmerge, placement, defragmentation, and the decision over all of them.

Nothing here does input or output: `merge`, `unmerge`, `place`, `release`, `consolidate`, `isolate`, `separated` and
`rescaled` return what would change as data, and only `RunningGraph.advance` and `Jobs.apply` lead to the next state.
`worth` says whether a consolidation pays, by its `gain` and its `disruption`. `in_quarantine` says which tasks share no
worker with those of others.
`explain` shows a tenant what a submission would reuse. `works` gives the work of tasks, and `work_saved` the part of it
that sharing saves. `repaced` says which jobs may beat slower.
"""

from merge.capacity import Costs
from merge.consolidation.cost_benefit import Regime, Saves, Worth, disruption, gain, worth
from merge.consolidation.defragmentation import Fragmentation, Region, consolidate, fragmentation, regions
from merge.consolidation.isolation import in_quarantine, isolate, quarantine_of, separated
from merge.errors import (
    DataflowExists,
    NoHost,
    NoSuchDataflow,
    RootsApart,
    SignatureCollision,
    StaleChange,
    TooManyStreams,
)
from merge.grouping.problem import Image
from merge.jobs import Assignment, Bridge, Home, Job, JobId, Jobs, release
from merge.merger import Explanation, explain, explained, merge, unmerge
from merge.paces import Repace, repaced
from merge.placement.hosts import Host, as_registered
from merge.placement.strategies import place
from merge.running_graph import Change, DagId, RunningDags, RunningGraph
from merge.shards import Rescale, rescaled
from merge.step import BATCH_SECONDS, Conditions, Remove, Replace, Request, Step, Submit, decide
from merge.tasks import Instance, RunningTask, Submitted, TaskCounts, counted
from merge.work import (
    ASSUMED_BUSY,
    Amount,
    MeasuredCosts,
    Weighed,
    each_step,
    estimated,
    numbered,
    work_saved,
    works,
)
