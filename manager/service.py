"""The service: every use case, in groups. REST calls nothing else.

A use case acts for one caller. Anything that the caller may not know of answers as if it did not exist.
"""

from dataclasses import dataclass
from typing import get_type_hints

from manager.adaptation.use_cases import Adaptations
from manager.dataflows.port_events import PortEvents
from manager.dataflows.use_cases import Bundles, Dataflows
from manager.jobs.placements import Placements
from manager.jobs.use_cases import RunningJobs
from manager.machines.use_cases import Images, MachineClasses, Machines, Rentals
from manager.moves.use_cases import Defragmentation
from manager.outputs.dead_letters import DeadLetters
from manager.overview.audit import Audit
from manager.overview.use_cases import Metrics, Operations, Overview, TaskTypes
from manager.pipelines.modules import Modules, Wheels
from manager.pipelines.use_cases import Pipelines
from manager.reconfigurations.use_cases import Reconfigurations
from manager.savings.use_cases import Bills, Savings
from manager.series.use_cases import Histories
from manager.sources.use_cases import SourceEvents, Sources
from manager.sources.webhooks import Webhooks
from manager.tenants.secrets import Secrets
from manager.tenants.use_cases import Administration, Sessions
from manager.trials.use_cases import Trials
from manager.use_case import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The use cases of one manager; made by `service_of`. Any thread may call them."""

    adaptations: Adaptations
    administration: Administration
    audit: Audit
    bundles: Bundles
    bills: Bills
    dataflows: Dataflows
    dead_letters: DeadLetters
    defragmentation: Defragmentation
    histories: Histories
    images: Images
    machine_classes: MachineClasses
    machines: Machines
    metrics: Metrics
    modules: Modules
    operations: Operations
    overview: Overview
    pipelines: Pipelines
    placements: Placements
    port_events: PortEvents
    reconfigurations: Reconfigurations
    rentals: Rentals
    running: RunningJobs
    savings: Savings
    secrets: Secrets
    sessions: Sessions
    source_events: SourceEvents
    sources: Sources
    task_types: TaskTypes
    trials: Trials
    webhooks: Webhooks
    wheels: Wheels


def service_of(tools: Tools) -> Service:
    """Make the use cases, all with the same tools."""
    return Service(**{name: family(tools) for name, family in get_type_hints(Service).items()})
