"""Torn files: a reader names the file, and nothing wrong comes out of it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridge import PositionsGone, Spool, SpoolDamaged
from bridge.spools.log import LOG
from engine.records.files import RecordDamaged
from engine.records.job_folder import spool_folder
from tests.chaos.chain import AVERAGED, STREAM, Chain

Tear = Callable[[bytes], bytes]

TEARS: dict[str, Tear] = {
    "emptied": lambda _whole: b"",
    "cut in its first line": lambda whole: whole[:30],
    "cut in the middle": lambda whole: whole[: len(whole) // 2],
    "without its last byte": lambda whole: whole[:-1],
    # In an event, where only a checksum shows it.
    "with a byte changed": lambda whole: whole.replace(b"k1", b"k2", 1),
}


@pytest.fixture
def chain(tmp_path: Path) -> Iterator[Chain]:
    """A chain through which some events went already."""
    made = Chain(tmp_path)
    for _ in range(3):
        made.events()
        made.whole()
    yield made
    made.close()


def torn(path: Path, tear: Tear) -> bytes:
    """Tear a file, and return what it held."""
    whole = path.read_bytes()
    assert tear(whole) != whole
    path.write_bytes(tear(whole))
    return whole


def go_on(chain: Chain) -> None:
    """Begin again and run everything that is there, like a host that was started again."""
    chain.begin_host()
    chain.settle()


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_torn_record(chain: Chain, tear: Tear) -> None:
    """A job whose last record is torn names it and computes nothing on top; once restored, it goes on as ever."""
    chain.events()
    chain.batch()
    path = chain.folder.records / f"{chain.job.batch - 1:020d}"
    whole = torn(path, tear)
    sent = chain.received(AVERAGED)
    with pytest.raises(RecordDamaged, match=f"{path.name} cannot be read.*restore it"):
        go_on(chain)
    assert sent == chain.received(AVERAGED)
    path.write_bytes(whole)
    go_on(chain)
    chain.check()


def test_a_missing_record(chain: Chain) -> None:
    """A record that is missing among others is named."""
    chain.events()
    chain.batch()
    chain.events()
    chain.batch()
    path = chain.folder.records / f"{chain.job.batch - 2:020d}"
    whole = path.read_bytes()
    path.unlink()
    with pytest.raises(RecordDamaged, match=f"{path.name} is missing; restore it"):
        go_on(chain)
    path.write_bytes(whole)
    go_on(chain)
    chain.check()


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_torn_file_of_a_spool(chain: Chain, tear: Tear) -> None:
    """A job whose spool has a torn file names it and reads nothing beyond; once restored, all of it is read."""
    chain.events()
    path = max((spool_folder(chain.root, STREAM) / LOG).glob("0*"))
    whole = torn(path, tear)
    for _ in range(2):
        with pytest.raises(SpoolDamaged, match=f"{path.name} cannot be read.*restore it"):
            go_on(chain)
    path.write_bytes(whole)
    go_on(chain)
    chain.check()


@pytest.mark.parametrize("tear", TEARS.values(), ids=TEARS)
def test_a_torn_file_is_not_appended_to(chain: Chain, tear: Tear) -> None:
    """A spool whose last file is torn is not opened for writing, so that nothing is received behind a gap."""
    folder = chain.spools[AVERAGED].folder
    chain.spools[AVERAGED].close()
    path = max((folder / LOG).glob("0*"))
    whole = torn(path, tear)
    with pytest.raises(SpoolDamaged, match=f"{path.name} cannot be read.*restore it"):
        Spool(folder, most_bytes=1 << 30)
    path.write_bytes(whole)
    chain.begin_receiver()
    go_on(chain)
    chain.check()


def test_a_file_of_a_spool_that_is_gone(chain: Chain) -> None:
    """A job whose unread events were removed says where the rest begin; it does not pass over them."""
    chain.events()
    chain.events()
    log = spool_folder(chain.root, STREAM) / LOG
    for path in sorted(log.glob("0*"))[:-1]:
        path.unlink()
    with pytest.raises(PositionsGone, match="was removed"):
        go_on(chain)
