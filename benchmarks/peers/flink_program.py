"""The dataflows as one PyFlink job, with the packages of PyFlink's own environment alone.

    python flink_program.py DATAFLOWS URL

DATAFLOWS is a JSON file with the `port`, `lowest`, `window`, `lowest_mean` and `output` of each. A topic is read and
parsed once; what follows is each dataflow's own, and one function publishes the outputs of all. Parallelism is 1, other
settings are the defaults.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion
from pyflink.common import Configuration, Types
from pyflink.datastream import (
    DataStream,
    KeyedProcessFunction,
    MapFunction,
    RuntimeContext,
    StreamExecutionEnvironment,
)
from pyflink.datastream.state import ValueStateDescriptor

_HIGHEST = 100.0


class _Mean(KeyedProcessFunction):  # type: ignore[misc]  # PyFlink is not installed where types are checked
    """The mean of each block of values of a sensor, if it is notable."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._config = config

    def open(self, runtime_context: RuntimeContext) -> None:
        self._block = runtime_context.get_state(ValueStateDescriptor("block", Types.PICKLED_BYTE_ARRAY()))

    def process_element(self, value: dict[str, Any], ctx: Any) -> Iterator[tuple[str, str]]:
        del ctx
        count, total = self._block.value() or (0, 0.0)
        count, total = count + 1, total + value["value"]
        if count < self._config["window"]:
            self._block.update((count, total))
            return
        self._block.clear()
        mean = total / count
        if self._config["lowest_mean"] <= mean <= _HIGHEST:
            yield self._config["output"], json.dumps({"sensor": value["sensor"], "value": mean})


class _Publish(MapFunction):  # type: ignore[misc]  # as above
    def __init__(self, url: str) -> None:
        self._url = url

    def open(self, runtime_context: RuntimeContext) -> None:
        del runtime_context
        broker = urlsplit(self._url)
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.username_pw_set(broker.username, broker.password)
        self._client.connect(broker.hostname or "127.0.0.1", broker.port or 1883)
        self._client.loop_start()

    def map(self, value: tuple[str, str]) -> int:
        self._client.publish(*value)
        return 0


def main(dataflows: Path, url: str) -> None:
    """Run the job until the process is ended."""
    configuration = Configuration()
    configuration.set_string("python.executable", sys.executable)
    for name in ("rest.bind-address", "rest.address", "jobmanager.bind-host", "taskmanager.bind-host"):
        configuration.set_string(name, "127.0.0.1")
    environment = StreamExecutionEnvironment.get_execution_environment(configuration)
    environment.set_parallelism(1)
    configs = json.loads(dataflows.read_text(encoding="utf-8"))
    events = {port: _events(environment, port) for port in sorted({config["port"] for config in configs})}
    outputs = [_outputs(events[config["port"]], config) for config in configs]
    # PyFlink has no sink for MQTT; what the function returns goes nowhere.
    outputs[0].union(*outputs[1:]).map(_Publish(url), output_type=Types.INT()).filter(lambda _: False).print()
    environment.execute("peers")


def _events(environment: StreamExecutionEnvironment, port: int) -> DataStream:
    # Python has no socket source of its own; this is the one of Java.
    lines = DataStream(environment._j_stream_execution_environment.socketTextStream("127.0.0.1", port))  # noqa: SLF001 - there is no public way to it
    return lines.map(json.loads)


def _outputs(events: DataStream, config: Mapping[str, Any]) -> DataStream:
    lowest = config["lowest"]
    return (
        events.filter(lambda event: lowest <= event["value"] <= _HIGHEST)
        .key_by(lambda event: event["sensor"], key_type=Types.STRING())
        .process(_Mean(config), output_type=Types.TUPLE([Types.STRING(), Types.STRING()]))
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
