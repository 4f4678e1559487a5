"""Files of a log as they were written once: Arrow IPC, with the expectations in the schema's metadata.

They are read as long as any may lie in a spool or a backup; none is written.
"""

import pyarrow as pa

from bridge.events.births import births_in
from bridge.intake import Expected
from bridge.spools.log import Item, ItemKind, unpacked_expected

_BEGIN = b"ARROW1"


def is_one(begin: bytes) -> bool:
    """Whether a file that begins so is one of these."""
    return begin.startswith(_BEGIN)


def parsed(content: memoryview) -> tuple[list[Item], dict[str, Expected]]:
    """What one holds, without its checksum."""
    with pa.ipc.open_file(pa.py_buffer(content)) as reader:
        items = [
            Item(
                kind=ItemKind(row["kind"]),
                count=row["count"],
                stamp=row["stamp"],
                payload=row["payload"],
                # The first of them have no such column.
                births=births_in(row.get("births"), row["count"]),
            )
            for row in reader.get_batch(0).to_pylist()
        ]
        return items, unpacked_expected(reader.schema.metadata[b"braid.expected"])
