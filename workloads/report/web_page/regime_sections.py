"""The sections on work: how near cores come to it, and which kind of saving counts where. Pure."""

from collections.abc import Sequence

from workloads.report.analysis.cores_and_work import NEAR, following
from workloads.report.analysis.regimes import regime_sentence
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import Summary
from workloads.report.web_page.html_tags import Html, joined, tag
from workloads.report.web_page.page_parts import NOTHING, Pictures, figure, sentences


def work(every: Sequence[Runs], summary: Summary) -> Html:
    """The cores saved beside the work saved."""
    return joined(
        tag(
            "p",
            "Work is events times what one costs, added up over all tasks. Sharing saves work; cores follow it as far"
            f" as work is what costs. Within {NEAR:g} points they are said to do so.",
        ),
        sentences(following(every, summary), NOTHING),
    )


def regimes(every: Sequence[Runs], pictures: Pictures) -> Html:
    """What each of the three saves, by the work in a batch."""
    said = [told for runs in every if (told := regime_sentence(runs))]
    return joined(
        tag(
            "p",
            "A model: cores are batches times the cost of one, and the work of the tasks. Sharing saves work, and"
            " batches where whole jobs vanish, but costs bridges; packing saves batches; defragmenting saves the"
            " batches and bridges of what sharing left scattered. So packing counts most where a batch holds little"
            " work, and sharing where it holds much. Lines are the model's, dots were measured, and the upright line"
            " is where sharing begins to save more than packing.",
        ),
        figure(pictures, "regimes"),
        sentences(said, NOTHING),
    )
