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
from merge.change import Change
from merge.consolidation.cost_benefit import Disruption, Gain, Worth, disruption, gain, worth
from merge.consolidation.defragmentation import Fragmentation, consolidate, fragmentation
from merge.consolidation.isolation import isolate, overloaded
from merge.consolidation.regimes import Regime, Saves
from merge.consolidation.regions import Region, regions
from merge.consolidation.separation import separated
from merge.covering import Component, components
from merge.errors import (
    DataflowExists,
    NoHost,
    NoSuchDataflow,
    RootsApart,
    SignatureCollision,
    StaleChange,
    TooManyStreams,
)
from merge.estimates import ASSUMED_BUSY, Basis, MeasuredCosts, TaskEstimate, estimated
from merge.explanation import Explanation, Reuse, explain, explained
from merge.grouping.images import Image
from merge.jobs import Assignment, Bridge, Home, Job, JobId, Jobs
from merge.merger import merge, swap, unmerge
from merge.paces import LONGEST_PACE, Repace, repaced
from merge.pauses import MOST_PAUSED, release
from merge.placement.hosts import Host, as_registered
from merge.placement.quarantine import in_quarantine, quarantine_of
from merge.placement.strategies import STRATEGIES, place
from merge.reconfiguration.serialisability import Cycle, History, Precedence, Processed, Transaction, violation
from merge.running_dags import DagId, RunningDags
from merge.running_graph import RunningGraph
from merge.shards import DividedWork, Rescale, divided_work, rescaled, shards_for
from merge.step import BATCH_SECONDS, Conditions, Remove, Replace, Request, Step, Submit, decide
from merge.task import Instance, RunningTask, Submitted
from merge.task_counts import TaskCounts, counted
from merge.work import Amount, Flow, Weighed, declared, each_step, each_task, flows, numbered, work_saved, works

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
