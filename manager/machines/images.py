"""The changes that images bring: registered, changed, removed.

What runs stays where it is. A change counts for whatever is placed from then on.
"""

from __future__ import annotations

import time
from datetime import datetime

from rpds import HashTrieMap
from sqlmodel import Session

from manager.answers.overview import OperationKind
from manager.kernel.committer import Committer
from manager.kernel.draft import Draft, write_down
from manager.kernel.state import CommittedState, image_of
from manager.kernel.transitions import TransitionScope
from manager.problem import NotFound
from manager.store.tables import ImageRow
from merge import Image

# rpds's classes take no parameters at run time.


class ImageChanges:
    """All that is done with images."""

    def __init__(self, committer: Committer) -> None:
        self._committer = committer

    def put(self, row: ImageRow, *, who: str) -> Image:
        """Register an image, in place of one of its name."""
        begun = time.monotonic()

        def write(session: Session, draft: Draft, _decided: None) -> Image:
            made = image_of(session.merge(row))
            _keep(draft, draft.state.images.insert(made.name, made))
            write_down(session, draft, OperationKind.PUT_IMAGE, who=who, subject=row.name, begun=begun)
            return made

        return self._committer.commit(lambda _state, _now: None, write, scope=_nothing)

    def remove(self, name: str, *, who: str) -> Image:
        """Remove an image, of which there may still be hosts; as it was."""
        begun = time.monotonic()

        def decide(state: CommittedState, _now: datetime) -> Image:
            if name not in state.images:
                raise NotFound("image", name)
            return state.images[name]

        def write(session: Session, draft: Draft, image: Image) -> Image:
            session.delete(session.get_one(ImageRow, name))
            _keep(draft, draft.state.images.remove(name))
            write_down(session, draft, OperationKind.REMOVE_IMAGE, who=who, subject=name, begun=begun)
            return image

        return self._committer.commit(decide, write, scope=_nothing)


def _keep(draft: Draft, images: HashTrieMap[str, Image]) -> None:
    draft.moved = True
    draft.state.images = images


def _nothing(_state: CommittedState, _decided: object) -> TransitionScope:
    return TransitionScope()
