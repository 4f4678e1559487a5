"""All changes of the committed state, by what they are about."""

from dataclasses import dataclass

from dags import Catalogue
from manager.committer.adaptation_changes import AdaptationChanges
from manager.committer.bundle_changes import BundleChanges
from manager.committer.committer import Committer
from manager.committer.dataflow_changes import DataflowChanges
from manager.committer.drain_changes import DrainChanges
from manager.committer.image_changes import ImageChanges
from manager.committer.job_changes import JobChanges
from manager.committer.move_changes import MoveChanges
from manager.committer.pipeline_changes import PipelineChanges
from manager.committer.reconfiguration_changes import ReconfigurationChanges
from manager.committer.source_changes import SourceChanges
from manager.store.database import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """One manager's; made by `changes_of`."""

    dataflows: DataflowChanges
    bundles: BundleChanges
    sources: SourceChanges
    images: ImageChanges
    pipelines: PipelineChanges
    adaptations: AdaptationChanges
    jobs: JobChanges
    moves: MoveChanges
    drains: DrainChanges
    reconfigurations: ReconfigurationChanges


def changes_of(committer: Committer, store: Store, catalogue: Catalogue) -> Changes:
    """All changes that a committer makes."""
    dataflows = DataflowChanges(committer, store, catalogue)
    return Changes(
        dataflows=dataflows,
        bundles=BundleChanges(committer, store, catalogue),
        sources=SourceChanges(committer, store),
        images=ImageChanges(committer),
        pipelines=PipelineChanges(committer, store),
        adaptations=AdaptationChanges(committer, store),
        jobs=JobChanges(committer),
        moves=MoveChanges(committer),
        drains=DrainChanges(committer, store, dataflows),
        reconfigurations=ReconfigurationChanges(committer, store, catalogue),
    )
