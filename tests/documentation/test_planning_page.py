"""The page about planning: its pipeline is planned of its modules as it says."""

import json

from dags import Kind, Schema, Source
from engine import installed_catalogue
from planning.pipelines.module import read_module
from planning.pipelines.planned import plan_pipeline
from planning.pipelines.reader import Surroundings, read_pipeline
from tests.documentation.pages import ROOT, page


def test_the_pipeline_is_planned_as_the_page_says() -> None:
    """With the modules of the page, and a source of temperatures."""
    examples = page("docs/planning.md").examples
    pipeline, *modules = [example.text for example in examples if example.language == "json"]
    shown = (ROOT / "docs/planning.md").read_text(encoding="utf-8").split("```text\n")[1].split("```")[0]
    around = Surroundings(
        dataflow="d",
        tenant="ann",
        catalogue=installed_catalogue(),
        sources={"street": Source(name="street", owner="ann", schema=Schema.of(temperature=Kind.FLOAT))},
        modules=[read_module(each, installed_catalogue()) for each in modules],
    )
    found = plan_pipeline(read_pipeline(pipeline, around), lambda _made: ())
    assert shown.split("\n")[:-1] == [f"{place}: {module}" for place, module in found.fillings.items()]
    assert json.loads(pipeline)["name"] == found.assembled.document["name"]
