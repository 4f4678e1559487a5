"""The latest state of a host in a store."""

from dataclasses import dataclass, field

from engine.replicas.store.objects import StoreDamaged, StoreObjects
from engine.replicas.store.stored import SITTING_LENGTH, StoredFiles, StoredRound, StoredState

STATES, ROUNDS, PACKS = "states", "rounds", "packs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestState:
    """The latest state; made by `latest`."""

    term: int = 0
    """The term of its owner; 0 if there is none."""
    root: str = ""
    """The id of its owner's root."""
    machine: str = ""
    whole: bool = False
    """Whether a host could begin from it."""
    files: StoredFiles = field(default_factory=StoredFiles)


def latest(objects: StoreObjects) -> LatestState:
    """Read the latest state from which a host could begin; else the latest one. Raises StoreDamaged."""
    states = list(objects.sizes(STATES))
    if not states:
        return LatestState()
    name = states[-1]
    sitting, number = name[:SITTING_LENGTH], int(name[SITTING_LENGTH + 1 :])
    _, state = objects.get(f"{STATES}/{name}", StoredState)
    files, whole = StoredFiles(state.files, state.folders), state.whole
    fallen_back = None
    for each in objects.sizes(ROUNDS):
        if each[:SITTING_LENGTH] != sitting or int(each[SITTING_LENGTH + 1 :]) <= number:
            continue
        number += 1
        if int(each[SITTING_LENGTH + 1 :]) != number:
            raise StoreDamaged(f"{objects.url}/{ROUNDS}/{sitting}-{number:010d} is missing")
        _, done = objects.get(f"{ROUNDS}/{each}", StoredRound)
        if done.portion and whole:
            fallen_back = files.copy()
        elif not done.portion:
            fallen_back = None
        whole = not done.portion
        files.apply(done, f"{ROUNDS}/{each}")
    if fallen_back is not None:
        files, whole = fallen_back, True
    there = {f"{folder}/{each}" for folder in (ROUNDS, PACKS) for each in objects.sizes(folder)}
    if missing := sorted(files.live().keys() - there):
        raise StoreDamaged(f"{objects.url}/{missing[0]} is missing")
    return LatestState(term=int(sitting[:10]), root=state.root, machine=state.machine, whole=whole, files=files)
