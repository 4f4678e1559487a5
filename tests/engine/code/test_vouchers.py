"""Vouchers: where a tenant's function runs, by the file in the root as it is when a batch comes."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from engine.code.store import VOUCHERS, Voucher, VoucherFile, digest_of
from tests.engine.code.publication import OWNER, Publication

WHERE = """
seen = []
def entry(event):
    seen.append(event["n"])
    try:
        open("/etc/passwd").close()
    except PermissionError:
        return {"m": -len(seen)}
    return {"m": len(seen)}
"""
"""A function that tells by the sign whether it runs in a cell, and how often its module was called."""
TEXTS = st.sampled_from(["", "ann", "bob", '"\\n'])
VOUCHER = st.builds(Voucher, owner=TEXTS, digest=TEXTS, entry=TEXTS, per=TEXTS)


def given_by(publication: Publication, root: Path, *changes: bool | None) -> list[int]:
    """What a running task gives for an event after each change of its voucher; None changes nothing."""
    trial = publication.trial(root)
    found = []
    for at, vouched in enumerate(changes):
        if vouched is not None:
            publication.vouch(root, vouched=vouched)
        (row,) = trial.take([("in", {"n": at})]).emitted["out"].rows.to_pylist()
        found.append(row["m"])
    return found


def test_the_next_batch_runs_where_the_voucher_says(tmp_path: Path) -> None:
    """A running task moves out of cells and back, and what the code kept in the worker is not used again."""
    changes = (None, True, None, False, None, True)
    assert [-1, 1, 2, -1, -1, 1] == given_by(Publication(WHERE), tmp_path, *changes)


def test_a_voucher_is_for_one_function_of_one_tenant(tmp_path: Path) -> None:
    """Not for another tenant's of the same source, nor for another function in it, nor for one that takes batches."""
    Publication(WHERE).vouch(tmp_path, vouched=True)
    voucher = Voucher(owner=OWNER, digest=digest_of(WHERE), entry="entry", per="event")
    file = VoucherFile(tmp_path)
    others = [
        Voucher(owner="bob", digest=voucher.digest, entry=voucher.entry, per=voucher.per),
        Voucher(owner=voucher.owner, digest=voucher.digest, entry="other", per=voucher.per),
        Voucher(owner=voucher.owner, digest=voucher.digest, entry=voucher.entry, per="batch"),
        Voucher(owner=voucher.owner, digest="0" * 64, entry=voucher.entry, per=voucher.per),
    ]
    assert [True, False, False, False, False] == [file.has(each) for each in (voucher, *others)]


def test_without_a_sound_file_nobody_vouches(tmp_path: Path) -> None:
    """Code runs in cells then, and in the worker again once the file is whole."""
    publication = Publication(WHERE)
    trial = publication._replace(vouched=True).trial(tmp_path)
    path = tmp_path / VOUCHERS
    sound = path.read_bytes()
    found = []
    for content in (sound, sound[:-1], b"{}", None, sound):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        found += trial.take([("in", {"n": 0})]).emitted["out"].rows.column("m").to_pylist()
    assert [1, -1, -1, -1, 1] == found


@given(st.lists(st.lists(VOUCHER, max_size=4), min_size=1, max_size=4))
def test_what_is_kept_is_found_and_nothing_else(steps: list[list[Voucher]]) -> None:
    """By a worker that looks after every step, and by one that looks only now."""
    with tempfile.TemporaryDirectory(prefix="braid-vouchers-") as folder:
        watching = VoucherFile(Path(folder))
        every = {each for step in steps for each in step}
        for step in steps:
            VoucherFile(Path(folder)).keep(step)
            assert set(step) == {each for each in every if watching.has(each)}
        assert set(steps[-1]) == {each for each in every if VoucherFile(Path(folder)).has(each)}
