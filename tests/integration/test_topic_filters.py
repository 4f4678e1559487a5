"""Sources with wildcards in their topics, through a host with real Spark and over real brokers."""

from pathlib import Path

import pytest

from bridge import topics
from bridge.broker import BrokerKind
from dags import Kind
from tests.brokers import KINDS
from tests.integration.hosting import delivery, hosting_in, job, raw, slot

PATTERN = "plant/{machine}/temperature"
FIELDS = {"machine": Kind.STRING, "n": Kind.INTEGER}


@pytest.mark.spark
@pytest.mark.parametrize("kind", KINDS)
def test_events_of_all_topics_that_match_reach_a_task(tmp_path: Path, kind: BrokerKind) -> None:
    """Once each, and each with the level of its topic; those of other topics do not."""
    with hosting_in(tmp_path, kind=kind) as hosting:
        named, plain = hosting.fresh(), hosting.fresh()
        sinks = hosting.fresh(), hosting.fresh()
        reads = raw(PATTERN, named, FIELDS), raw("plant/+/temperature/#", plain, {"n": Kind.INTEGER})
        hosting.run(job("j", slot(sinks[0], "output", named), slot(sinks[1], "output", plain), reads=reads))
        for n, topic in enumerate(["m1/temperature", "m2/temperature", "m1/pressure", "m1/temperature/in"]):
            hosting.publish(f"plant/{topic}", [{"n": n, "machine": 7}])
        hosting.publish("plant/m1/temperature", [{"n": "hot"}])
        hosting.publish("plant/m1/temperature", [{"n": 9}])
        assert [{"n": 0, "machine": "m1"}, {"n": 1, "machine": "m2"}, {"n": 9, "machine": "m1"}] == (
            hosting.until_delivered(delivery(sinks[0]), 3)
        )
        assert [0, 1, 3, 9] == [event["n"] for event in hosting.until_delivered(delivery(sinks[1]), 4)]
        topic = topics.unread("plant/+/temperature")
        [unread] = hosting.until(lambda: hosting.heard(topic), "what could not be read")
        assert "on plant/m1/temperature: the field 'n' should be of kind integer" == unread["reason"]
