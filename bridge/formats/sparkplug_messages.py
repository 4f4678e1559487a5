"""The messages of Sparkplug B as Protocol Buffers, and the values of their metrics.

No package that has their descriptor fits beside the other libraries of Braid: pysparkplug needs paho-mqtt below 2,
leaf-device protobuf below 6, mqtt-spb-wrapper and tahutils are under another kind of license, and of the rest none has
had more than a first release. So the descriptor is made here of the numbers and types of the fields in section 6.4 of
the specification, version 3.0. What is not read, such as the properties of metrics, is left out: readers skip it.
"""

import base64
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_VALUES = "int:uint32 long:uint64 float:float double:double boolean:bool string:string"
_FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "Payload": "1:timestamp:uint64 2:metrics:Metric* 3:seq:uint64 4:uuid:string 5:body:bytes",
        "Metric": (
            "1:name:string 2:alias:uint64 3:timestamp:uint64 4:datatype:uint32 5:is_historical:bool 7:is_null:bool "
            "10:int_value:uint32 11:long_value:uint64 12:float_value:float 13:double_value:double "
            "14:boolean_value:bool 15:string_value:string 16:bytes_value:bytes 17:dataset_value:DataSet "
            "18:template_value:Template"
        ),
        "DataSet": "2:columns:string* 3:types:uint32* 4:rows:Row*",
        "Row": "1:elements:Element*",
        "Element": (
            "1:int_value:uint32 2:long_value:uint64 3:float_value:float 4:double_value:double 5:boolean_value:bool "
            "6:string_value:string"
        ),
        "Template": "2:metrics:Metric* 5:is_definition:bool",
    }
)
"""Of each message type the number, name and type of its fields; a star is behind the type of those that are repeated.

All fields whose names end in `_value` are in one choice.
"""
_SCALARS: Mapping[str, "FieldDescriptorProto.Type.ValueType"] = MappingProxyType(
    {
        "bool": FieldDescriptorProto.TYPE_BOOL,
        "bytes": FieldDescriptorProto.TYPE_BYTES,
        "double": FieldDescriptorProto.TYPE_DOUBLE,
        "float": FieldDescriptorProto.TYPE_FLOAT,
        "string": FieldDescriptorProto.TYPE_STRING,
        "uint32": FieldDescriptorProto.TYPE_UINT32,
        "uint64": FieldDescriptorProto.TYPE_UINT64,
    }
)
_PACKAGE = "sparkplug"


def _message_type(name: str, fields: str) -> DescriptorProto:
    kind = DescriptorProto(name=name)
    for text in fields.split():
        number, field_name, type_name = text.split(":")
        label = FieldDescriptorProto.LABEL_REPEATED if "*" in type_name else FieldDescriptorProto.LABEL_OPTIONAL
        field = kind.field.add(name=field_name, number=int(number), label=label)
        if (scalar := _SCALARS.get(type_name.rstrip("*"))) is not None:
            field.type = scalar
        else:
            field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f".{_PACKAGE}.{type_name.rstrip('*')}"
        if field_name.endswith("_value"):
            field.oneof_index = 0
    if any(field.HasField("oneof_index") for field in kind.field):
        kind.oneof_decl.add(name="value")
    return kind


def _payload_class() -> Any:
    pool = DescriptorPool()
    kinds = [_message_type(name, fields) for name, fields in _FIELDS.items()]
    file = FileDescriptorProto(name=f"{_PACKAGE}.proto", package=_PACKAGE, syntax="proto2", message_type=kinds)
    pool.AddSerializedFile(file.SerializeToString())
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.Payload"))


Payload: Any = _payload_class()
"""The class of all messages; what their fields mean is in section 6.4 of the specification."""

NAMESPACE = "spBv1.0"
"""The level of a topic behind which are the levels of Sparkplug."""
REBIRTH = "Node Control/Rebirth"
"""The metric of a command that asks an edge node for another birth."""
SESSION = "bdSeq"
"""The metric that says which session a birth and a death of an edge node belong to."""
SEQUENCE = 256
"""Sequence numbers, after which they begin again; so it is with sessions."""
BOOLEAN = 11
"""The number of the type of metrics that are true or false."""
_MOST_VALUES = 300_000
"""Values in the data sets and templates of a message."""


def _signed(bits: int) -> Callable[[int], int]:
    # Writers extend a negative number to the width of the field, or not.
    return lambda value: ((value & ((1 << bits) - 1)) ^ (1 << (bits - 1))) - (1 << (bits - 1))


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _array(item: str) -> Callable[[bytes], list[Any]]:
    return lambda value: np.frombuffer(value, item).tolist()


def _booleans(value: bytes) -> list[bool]:
    count = int.from_bytes(value[:4], "little")
    bits = np.unpackbits(np.frombuffer(value[4:], np.uint8))
    if count > len(bits):
        raise ValueError(f"an array has {count:,} values, and there are {len(bits):,}")
    return [bool(bit) for bit in bits[:count].tolist()]


def _texts(value: bytes) -> list[str]:
    return [text.decode() for text in value.removesuffix(b"\0").split(b"\0")] if value else []


_BY_TYPE: Mapping[int, Callable[[Any], Any]] = MappingProxyType(
    {
        1: _signed(8),
        2: _signed(16),
        3: _signed(32),
        4: _signed(64),
        17: _base64,
        18: _base64,
        22: _array("<i1"),
        23: _array("<i2"),
        24: _array("<i4"),
        25: _array("<i8"),
        26: _array("<u1"),
        27: _array("<u2"),
        28: _array("<u4"),
        29: _array("<u8"),
        30: _array("<f4"),
        31: _array("<f8"),
        32: _booleans,
        33: _texts,
        34: _array("<i8"),
    }
)
"""What makes the value of a metric of what is written, by the number of its type; others stay as they are."""


class MetricValues:
    """The values of the metrics of one message, which are bounded together."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def of(self, metric: Any, datatype: int) -> Any:
        """The value of a metric, or of an element of a data set, as JSON could hold it; None if it is null."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"the message has more than {_MOST_VALUES:,} values; send several")
        if (name := metric.WhichOneof("value")) is None:
            return None
        value = getattr(metric, name)
        if name == "dataset_value":
            return [self._row(value, row.elements) for row in value.rows]
        if name == "template_value":
            return {inner.name: self.of(inner, inner.datatype) for inner in value.metrics}
        convert = _BY_TYPE.get(datatype)
        if name == "bytes_value":
            return (convert or _base64)(value)
        return value if convert is None or not isinstance(value, int) else convert(value)

    def _row(self, table: Any, elements: Any) -> dict[str, Any]:
        if not len(table.columns) == len(table.types) == len(elements):
            raise ValueError("a row of a data set does not have as many values as there are columns")
        return {
            name: self.of(element, kind)
            for name, kind, element in zip(table.columns, table.types, elements, strict=True)
        }
