"""The running graph and the jobs: merge and unmerge, placement, defragmentation, and the decision over all of them.

Nothing here does input or output: `merge`, `unmerge`, `place`, `release`, `consolidate`, `isolate`, `separated` and
`rescaled` return what would change as data, and only `RunningGraph.advance` and `Jobs.apply` lead to the next state.
`worth` says whether a consolidation pays, by its `gain` and its `disruption`. `in_quarantine` says which tasks share no
worker with those of others.
`explain` shows a tenant what a submission would reuse. `flows` and `works` give the rates and the work of tasks, and
`work_saved` the part of the work that sharing saves. `shards_for` chooses the shards of a job for its `divided_work`,
and `repaced` says which jobs may beat slower.
`components` says which tasks a reconfiguration switches in step, and `violation` if a history of events and
reconfigurations is consistent.
"""

from merge.capacity import Costs
from merge.consolidation.cost_benefit import Disruption, Gain, Regime, Saves, Worth, disruption, gain, worth
from merge.consolidation.defragmentation import Fragmentation, Region, consolidate, fragmentation, regions
from merge.consolidation.isolation import in_quarantine, isolate, overloaded, quarantine_of, separated
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
from merge.jobs import MOST_PAUSED, Assignment, Bridge, Home, Job, JobId, Jobs, release
from merge.merger import Explanation, Reuse, explain, explained, merge, swap, unmerge
from merge.paces import LONGEST_PACE, Repace, repaced
from merge.placement.hosts import Host, as_registered
from merge.placement.strategies import STRATEGIES, place
from merge.reconfiguration.covering import Component, components
from merge.reconfiguration.serialisability import Cycle, History, Precedence, Processed, Transaction, violation
from merge.running_graph import Change, DagId, RunningDags, RunningGraph
from merge.shards import DividedWork, Rescale, divided_work, rescaled, shards_for
from merge.step import BATCH_SECONDS, Conditions, Remove, Replace, Request, Step, Submit, decide
from merge.tasks import Instance, RunningTask, Submitted, TaskCounts, counted
from merge.work import (
    ASSUMED_BUSY,
    Amount,
    Basis,
    Flow,
    MeasuredCosts,
    TaskEstimate,
    Weighed,
    declared,
    each_step,
    each_task,
    estimated,
    flows,
    numbered,
    work_saved,
    works,
)

__all__ = [
    "ASSUMED_BUSY",
    "BATCH_SECONDS",
    "LONGEST_PACE",
    "MOST_PAUSED",
    "STRATEGIES",
    "Amount",
    "Assignment",
    "Basis",
    "Bridge",
    "Change",
    "Component",
    "Conditions",
    "Costs",
    "Cycle",
    "DagId",
    "DataflowExists",
    "Disruption",
    "DividedWork",
    "Explanation",
    "Flow",
    "Fragmentation",
    "Gain",
    "History",
    "Home",
    "Host",
    "Image",
    "Instance",
    "Job",
    "JobId",
    "Jobs",
    "MeasuredCosts",
    "NoHost",
    "NoSuchDataflow",
    "Precedence",
    "Processed",
    "Regime",
    "Region",
    "Remove",
    "Repace",
    "Replace",
    "Request",
    "Rescale",
    "Reuse",
    "RootsApart",
    "RunningDags",
    "RunningGraph",
    "RunningTask",
    "Saves",
    "SignatureCollision",
    "StaleChange",
    "Step",
    "Submit",
    "Submitted",
    "TaskCounts",
    "TaskEstimate",
    "TooManyStreams",
    "Transaction",
    "Weighed",
    "Worth",
    "as_registered",
    "components",
    "consolidate",
    "counted",
    "decide",
    "declared",
    "disruption",
    "divided_work",
    "each_step",
    "each_task",
    "estimated",
    "explain",
    "explained",
    "flows",
    "fragmentation",
    "gain",
    "in_quarantine",
    "isolate",
    "merge",
    "numbered",
    "overloaded",
    "place",
    "quarantine_of",
    "regions",
    "release",
    "repaced",
    "rescaled",
    "separated",
    "shards_for",
    "swap",
    "unmerge",
    "violation",
    "work_saved",
    "works",
    "worth",
]
