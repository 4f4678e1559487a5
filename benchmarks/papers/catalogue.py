"""The papers, by their numbers."""

from collections.abc import Mapping

from benchmarks.papers.adaptive_dataflows import ADAPTIVE_DATAFLOWS
from benchmarks.papers.exhibits import Paper
from benchmarks.papers.operator_groups import OPERATOR_GROUPS
from benchmarks.papers.planned_pipelines import PLANNED_PIPELINES
from benchmarks.papers.reconfigurations import RECONFIGURATIONS
from benchmarks.papers.shared_tasks import SHARED_TASKS

PAPERS: Mapping[str, Paper] = {
    paper.number: paper
    for paper in (PLANNED_PIPELINES, OPERATOR_GROUPS, RECONFIGURATIONS, ADAPTIVE_DATAFLOWS, SHARED_TASKS)
}
