"""The page for operators lists the metrics as they are."""

from manager.overview import metrics
from manager.rest.metrics import METRICS
from tests.documentation.pages import page

SHOWN = page("docs/operating.md")


def test_every_metric_is_described_as_it_is() -> None:
    """Each has its row, in the order of the table in the code, with its kind, its labels and its help."""
    described = [tuple(row) for row in SHOWN.table("The metrics").rows[1:]]
    assert [
        (f"`{each.name}`", each.kind, ", ".join(f"`{label}`" for label in each.labels), each.about) for each in METRICS
    ] == described


def test_what_is_named_elsewhere_on_the_page_is_there() -> None:
    """Every metric in the text is one of the table, and the bound is the one that is held."""
    named = {word.partition("{")[0] for code in SHOWN.code for word in code.replace("(", " ").replace(")", " ").split()}
    assert {each for each in named if each.startswith("braid_")} <= {each.name for each in METRICS}
    assert {200} == {metrics.MOST_JOB_SAMPLES, metrics.MOST_INSTANCE_SAMPLES, metrics.MOST_STREAM_SAMPLES}
    text = SHOWN.path.read_text(encoding="utf-8")
    assert "to 200 each" in text
