"""The sections on work: cores compared with work, and the largest saving by the load. Pure."""

from collections.abc import Sequence

from workloads.report.analysis.cores_and_work import NEAR, cores_against_work
from workloads.report.analysis.regimes import regime_sentence
from workloads.report.analysis.runs import Runs
from workloads.report.analysis.summary import Summary
from workloads.report.web_page.html_tags import Html, joined, tag
from workloads.report.web_page.page_parts import NO_DATA, Pictures, figure, sentences


def work(every: Sequence[Runs], summary: Summary) -> Html:
    """The saved cores compared with the saved work."""
    return joined(
        tag(
            "p",
            "Work is the number of events times their cost, summed over all tasks. Sharing saves work. Cores follow the"
            f" work where it takes most of the CPU; here they count as following within {NEAR:g} percentage points.",
        ),
        sentences(cores_against_work(every, summary), NO_DATA),
    )


def regimes(every: Sequence[Runs], pictures: Pictures) -> Html:
    """The savings of sharing, packing and defragmenting, by the work in a batch."""
    found = [text for runs in every if (text := regime_sentence(runs))]
    return joined(
        tag(
            "p",
            "This is a model: the cores are the number of batches times the cost of one, plus the work of the tasks."
            " Sharing saves work, and the batches of jobs that disappear, but it adds bridges. Packing saves batches."
            " Defragmenting saves the batches and bridges of jobs that sharing left scattered. So packing saves most"
            " where a batch holds little work, and sharing where it holds much. Lines are the model, dots are"
            " measurements, and from the vertical line on sharing saves more than packing.",
        ),
        figure(pictures, "regimes"),
        sentences(found, NO_DATA),
    )
