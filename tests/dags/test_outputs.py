"""The settings of outputs: their short forms, which fields they name, and that none of it is signed."""

import pytest

from dags.outputs import (
    CsvOutput,
    DeliveringConfig,
    EnvelopeOutput,
    InfluxOutput,
    OutputFormat,
    OutputSettings,
    PlainOutput,
    SparkplugOutput,
    fields_delivered,
)
from dags.schema import Kind
from dags.task_type import Read


def test_a_kind_alone_is_a_format() -> None:
    """It is short for the format without settings."""
    made = [OutputSettings.model_validate({"format": kind}).format for kind in ("envelope", "plain", "csv")]
    assert [EnvelopeOutput(), PlainOutput(), CsvOutput()] == made
    written = {"kind": "csv", "columns": ["a"], "separator": ";"}
    assert CsvOutput(columns=("a",), separator=";") == OutputSettings.model_validate({"format": written}).format


@pytest.mark.parametrize(
    "settings",
    [
        OutputSettings(format=PlainOutput()),
        OutputSettings(retain=True),
        OutputSettings(topic="ann/warm"),
        OutputSettings(format=CsvOutput(), retain=True, topic="ann/warm"),
    ],
)
def test_settings_that_differ_from_the_usual_ones(settings: OutputSettings) -> None:
    """Each of them alone counts, and none is part of what is signed."""
    config = DeliveringConfig(format=settings.format, retain=settings.retain, topic=settings.topic)
    assert settings == config.settings
    assert {} == config.model_dump()


def test_the_usual_settings_are_none() -> None:
    """An output that is delivered as always has nothing to keep."""
    assert DeliveringConfig().settings is None
    assert DeliveringConfig(format=EnvelopeOutput(), retain=False, topic=None).settings is None


AS_TAG = frozenset({Kind.STRING, Kind.INTEGER, Kind.BOOLEAN})


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (EnvelopeOutput(), ()),
        (PlainOutput(), ()),
        (CsvOutput(), ()),
        (
            CsvOutput(columns=("a", "b")),
            (Read(at="format/columns/0", field="a"), Read(at="format/columns/1", field="b")),
        ),
        (
            InfluxOutput(measurement="m", tags=("a", "b"), time="at"),
            (
                Read(at="format/tags/0", field="a", kinds=AS_TAG),
                Read(at="format/tags/1", field="b", kinds=AS_TAG),
                Read(at="format/time", field="at", kinds=frozenset({Kind.TIMESTAMP})),
            ),
        ),
        (InfluxOutput(measurement="m"), ()),
        (
            SparkplugOutput(group="ann", node="press", time="at"),
            (Read(at="format/time", field="at", kinds=frozenset({Kind.TIMESTAMP})),),
        ),
        (SparkplugOutput(group="ann", node="press"), ()),
    ],
)
def test_the_fields_that_a_format_names(chosen: OutputFormat, expected: tuple[Read, ...]) -> None:
    """A document is refused where one of them is not there, or of a kind that the format cannot write."""
    assert expected == fields_delivered(DeliveringConfig(format=chosen))
