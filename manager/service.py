"""The service: every use case, in groups. REST calls nothing else.

A use case acts for one caller. Anything that the caller may not know of answers as if it did not exist.
"""

from dataclasses import dataclass

from manager.cases.adaptive.adaptations import Adaptations
from manager.cases.administration import Administration
from manager.cases.bills import Bills
from manager.cases.bundles import Bundles
from manager.cases.dataflows import Dataflows
from manager.cases.dead_letters import DeadLetters
from manager.cases.defragmentation import Defragmentation
from manager.cases.operations import Operations
from manager.cases.overview import Overview
from manager.cases.planned.modules import Modules
from manager.cases.planned.pipelines import Pipelines
from manager.cases.planned.wheels import Wheels
from manager.cases.reconfigurations import Reconfigurations
from manager.cases.runtime.images import Images
from manager.cases.runtime.jobs import RunningJobs
from manager.cases.runtime.machines import Machines
from manager.cases.runtime.placements import Placements
from manager.cases.savings import Savings
from manager.cases.sessions import Sessions
from manager.cases.source_events import SourceEvents
from manager.cases.sources import Sources
from manager.cases.task_types import TaskTypes
from manager.cases.tenant_secrets import Secrets
from manager.cases.tools import Tools
from manager.metrics.collector import Metrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The use cases of one manager; made by `service_of`. Any thread may call them."""

    adaptations: Adaptations
    administration: Administration
    bundles: Bundles
    bills: Bills
    dataflows: Dataflows
    dead_letters: DeadLetters
    defragmentation: Defragmentation
    images: Images
    machines: Machines
    metrics: Metrics
    modules: Modules
    operations: Operations
    overview: Overview
    pipelines: Pipelines
    placements: Placements
    reconfigurations: Reconfigurations
    running: RunningJobs
    savings: Savings
    secrets: Secrets
    sessions: Sessions
    source_events: SourceEvents
    sources: Sources
    task_types: TaskTypes
    wheels: Wheels


def service_of(tools: Tools) -> Service:
    """Make the use cases, all with the same tools."""
    return Service(
        adaptations=Adaptations(tools),
        administration=Administration(tools),
        bundles=Bundles(tools),
        bills=Bills(tools),
        dataflows=Dataflows(tools),
        dead_letters=DeadLetters(tools),
        defragmentation=Defragmentation(tools),
        images=Images(tools),
        machines=Machines(tools),
        metrics=Metrics(tools),
        modules=Modules(tools),
        operations=Operations(tools),
        overview=Overview(tools),
        pipelines=Pipelines(tools),
        placements=Placements(tools),
        reconfigurations=Reconfigurations(tools),
        running=RunningJobs(tools),
        savings=Savings(tools),
        secrets=Secrets(tools),
        sessions=Sessions(tools),
        source_events=SourceEvents(tools),
        sources=Sources(tools),
        task_types=TaskTypes(tools),
        wheels=Wheels(tools),
    )
