"""MQTT: events that are published as raw events."""

from collections.abc import Mapping

import pyarrow as pa

from bridge.output_messages import event_texts
from engine.behaviour import Behaviour, Implementation, PortEmission
from engine.implementations.outside.receipts import with_receipts
from engine.plan import Subscribed, unfit
from engine.records.state import Staged
from engine.side_effect import MESSAGES, Act, ActingBehaviour, EventNames
from engine.tasks.outside import MQTT_PUBLISH, MqttPublishConfig

_MESSAGES = pa.schema({"topic": pa.string(), "event": pa.string()})


def _mqtt_publish(config: MqttPublishConfig) -> Behaviour:
    """Events are passed on at once. Their messages are sent after the batch is recorded.

    >>> from engine.trial import try_out
    >>> try_out("mqtt_publish", {"topic": "ann/models"}, [{"model": 7}])["out"]
    [{'model': 7, 'receipt': 'ann/models#:0.0'}]
    """
    if why := unfit(Subscribed(topic=config.topic)):
        raise ValueError(why)

    def publish(_port: str, events: pa.RecordBatch, _state: Staged, names: EventNames) -> Mapping[str, PortEmission]:
        texts = pa.array([text.decode() for text in event_texts(events)], pa.string())
        topics = pa.array([config.topic] * len(events), pa.string())
        return {
            "out": PortEmission(with_receipts(events, [f"{config.topic}#{name}" for name in names.each()])),
            MESSAGES: PortEmission(pa.record_batch([topics, texts], schema=_MESSAGES)),
        }

    act: Act = publish
    return ActingBehaviour(act=act)


mqtt_publish = Implementation(type=MQTT_PUBLISH, make=_mqtt_publish)
