"""What a published function keeps under the keys of a batch: read from its task's state, and staged there."""

import json
from collections.abc import Mapping

import msgspec
import numpy as np
import pyarrow as pa

from engine.code.cell.batch_calls import plain_columns
from engine.code.cell.kept_values import KeptBounds, KeptValues, unpacked_kept
from engine.code.cell.parent import KeptRequest
from engine.records.state import KEY_BYTES, Staged, packed_key
from engine.tasks.code import StatefulCodeConfig


class BatchState:
    """The values of the keys of one batch, for calls in the worker or in cells; nothing is staged before `stage`."""

    def __init__(self, config: StatefulCodeConfig, events: pa.RecordBatch, state: Staged) -> None:
        """`events` have the fields of the key."""
        columns = plain_columns(events.column(name) for name in config.by)
        places: dict[bytes, int] = {}
        self.places = np.array(
            [
                places.setdefault(packed_key(key), len(places))
                for key in (zip(*columns, strict=True) if columns else [()] * len(events))
            ],
            np.int64,
        )
        """The place of each event's key."""
        self._keys = list(places)
        self.config = config_text(config)
        self._state = state
        keys = state.growth.key_count()
        self.values = KeptValues(
            [state.packed(key) for key in self._keys],
            list(map(len, self._keys)),
            KeptBounds(
                most_keys=config.most_keys,
                most_bytes=config.most_bytes,
                keys=keys,
                bytes=state.growth.size() - KEY_BYTES * keys,
            ),
        )

    def request(self, first: int, end: int) -> KeptRequest:
        """What a cell needs for some events."""
        used, places = np.unique(self.places[first:end], return_inverse=True)
        values, key_bytes, bounds = self.values.part(used.tolist())
        return KeptRequest(
            config=self.config, bounds=bounds, key_bytes=key_bytes, values=values, places=places.tolist()
        )

    def accept(self, first: int, end: int, kept_at: Mapping[int, bytes | None]) -> bool:
        """Take over what a cell for these events has sent; False if its function cannot have kept that."""
        used = np.unique(self.places[first:end]).tolist()
        try:
            if any(not 0 <= at < len(used) for at in kept_at):
                return False
            for packed in kept_at.values():
                if packed is not None:
                    unpacked_kept(packed)
            self.values.put_all({used[at]: packed for at, packed in kept_at.items()})
        except (msgspec.MsgspecError, ValueError, RecursionError):
            # Among them `KeptTooMuch`.
            return False
        return True

    def stage(self) -> None:
        """Stage what has changed."""
        changed = self.values.changed
        self._state.put_many([self._keys[at] for at in changed], list(changed.values()))


def config_text(config: StatefulCodeConfig) -> str:
    """The config that a function gets, as JSON."""
    return json.dumps(config.config)
