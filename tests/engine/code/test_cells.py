"""What published code tries in a cell, and does not get; and where a tenant's function runs."""

import tempfile
from pathlib import Path
from textwrap import indent

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.behaviour import task_cpu_ns
from engine.code import cells as cells_module
from engine.code.cell import confinement
from engine.code.cells import Cells, NoCells, cells
from engine.code.store import VOUCHERS, CodeStore, Voucher, VoucherFile, digest_of
from engine.outside import Vault
from engine.spark.session import pack_code
from tests.engine.code.publication import OWNER, Publication, numbers

TEXT = {"m": "string"}


def attempt(root: Path, code: str, setup: str = "") -> str:
    """What a function returns as text that runs some lines for an event, or why the event is parked."""
    text = f"{setup}\ndef entry(event):\n{indent(code, '    ')}\n"
    given, reasons = Publication(text, TEXT).run(root, numbers(1))
    return str(given[0]["m"]) if given else reasons[0]


def test_no_environment_reaches_a_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of the worker are not in it, nor anything but what Python needs."""
    monkeypatch.setenv("BRAID_BROKER", "mqtt://braid:secret@127.0.0.1")
    cells("event").close()
    names = attempt(tmp_path, "import os\nreturn {'m': ' '.join(sorted(os.environ))}")
    assert names == "LC_ALL OMP_NUM_THREADS OPENBLAS_NUM_THREADS PYTHONDONTWRITEBYTECODE PYTHONHASHSEED"


@pytest.mark.parametrize("name", ["secrets.key", "secrets/=ann/=password", "code/SOURCE.py", "deployment"])
def test_no_file_of_braid_can_be_read(tmp_path: Path, name: str) -> None:
    """Neither secrets nor their key, nor other sources, wherever the root is and in whatever user's worker."""
    Vault(tmp_path).put("ann", "password", "hush")
    CodeStore(tmp_path).put(digest_of("x = 1"), "x = 1")
    (tmp_path / "deployment").write_text("d", encoding="ascii")
    path = tmp_path / name.replace("SOURCE", digest_of("x = 1"))
    assert path.is_file()
    assert attempt(tmp_path, f"return {{'m': open({str(path)!r}).read()}}").startswith("PermissionError")


@pytest.mark.parametrize(
    "code",
    [
        "open('/etc/passwd').read()",
        "open('/proc/self/environ').read()",
        "open('/proc/1/environ').read()",
        "__import__('os').listdir('/')",
        "open('/tmp/there', 'w').write('x' * 10**9)",
        "__import__('os').mkdir('/tmp/braid-made')",
        "__import__('os').unlink('/etc/passwd')",
        "__import__('os').kill(1, 0)",
        "__import__('os').execv('/bin/ls', ['ls'])",
        "__import__('subprocess').run(['ls'])",
        "__import__('os').fork()",
        "__import__('socket').socket()",
        "__import__('socket').socketpair()",
        "__import__('socket').create_connection(('127.0.0.1', 1))",
        "__import__('time').sleep(60)",
        "__import__('resource').setrlimit(__import__('resource').RLIMIT_CPU, (100, 100))",
        "__import__('ctypes').CDLL('/tmp/any.so')",
    ],
)
def test_what_is_forbidden_raises(tmp_path: Path, code: str) -> None:
    """Files, processes, sockets, signals, waiting and limits: the event is a dead letter with the reason."""
    refused = ("PermissionError", "OSError: ", "ValueError: not allowed")
    assert attempt(tmp_path, f"{code}\nreturn {{'m': 'done'}}").startswith(refused)


def test_the_working_folder_takes_no_file(tmp_path: Path) -> None:
    """It is empty, and nobody's."""
    assert attempt(tmp_path, "open('here', 'w').write('x' * 10**9)").startswith("FileNotFoundError")


def test_a_connection_to_the_internet_or_a_listener_here_cannot_be_opened(tmp_path: Path) -> None:
    """The system call itself is refused, so no address makes a difference, nor does a call past Python's modules."""
    code = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    code += "return {'m': str([libc.syscall(number, 2, 1, 0) for number in (41, 42, 49, 53, 425)])}"
    assert "[-1, -1, -1, -1, -1]" == attempt(tmp_path, code)


def test_no_thread_can_be_started(tmp_path: Path) -> None:
    """So nothing runs beside a call, or after it."""
    assert attempt(tmp_path, "import threading\nthreading.Thread(target=print).start()").startswith("RuntimeError")


def test_no_file_is_open_but_that_of_the_results(tmp_path: Path) -> None:
    """Standard streams lead nowhere, so what code prints reaches nobody."""
    code = "import os\nfound = []\nfor at in range(64):\n    try:\n        os.fstat(at)\n        found.append(at)\n"
    code += "    except OSError:\n        pass\nprint('x' * 100_000)\nos.write(1, b'x')\nreturn {'m': str(found)}"
    assert "[0, 1, 2, 3]" == attempt(tmp_path, code)


def test_a_fork_bomb_makes_no_process(tmp_path: Path) -> None:
    """Not even past Python's own functions."""
    code = "import ctypes\nlibc = ctypes.CDLL(None)\n"
    code += "return {'m': str([libc.syscall(number, 17, 0, 0, 0, 0) for number in (56, 57, 58, 435)])}"
    assert "[-1, -1, -1, -1]" == attempt(tmp_path, code)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("while True: pass", "CodeEnded: it took over 1 s of CPU"),
        ("held.append(bytearray(2**31))", "MemoryError: "),
        ("import os; os._exit(0)", "CodeEnded: it ended its process"),
        ("import os; os._exit(3)", "CodeEnded: it ended its process with code 3"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import ctypes; ctypes.string_at(0)", "CodeEnded: it crashed (SIGSEGV)"),
    ],
)
def test_only_the_event_that_ends_its_cell_is_parked(tmp_path: Path, bad: str, reason: str) -> None:
    """All others of the batch are worked off, in order."""
    text = f"held = []\ndef entry(event):\n    if event['n'] == 2:\n        {bad}\n    return {{'m': event['n'] * 2}}"
    expected = [{"n": n, "m": 2 * n} for n in (0, 1, 3, 4)]
    assert (expected, [reason]) == Publication(text).run(tmp_path, numbers(5))


def test_memory_is_limited_although_little_at_a_time_is_taken(tmp_path: Path) -> None:
    """The event is parked, and the next one gets a cell with memory to take."""
    # Zeros that nobody has written to take no CPU, of which there is a bound, too.
    text = "held = []\ndef entry(event):\n    while event['n'] == 1:\n        held.append(bytes(10_000_000))\n"
    text += "    return {'m': len(bytearray(10_000_000))}"
    given, reasons = Publication(text).run(tmp_path, numbers(3))
    assert ([0, 2], ["MemoryError: "]) == ([each["n"] for each in given], reasons)


def test_after_three_ends_the_rest_is_parked(tmp_path: Path) -> None:
    """A function that always hangs holds the batch up for seconds, not for as long as there are events."""
    text = "import os\ndef entry(event):\n    os._exit(1)"
    given, reasons = Publication(text).run(tmp_path, numbers(1_000))
    rest = "CodeEnded: the process of 3 earlier events of the batch ended before its time"
    assert ([], ["CodeEnded: it ended its process with code 1"] * 3 + [rest] * 997) == (given, reasons)


def test_a_source_that_hangs_while_it_is_loaded_parks_the_batch(tmp_path: Path) -> None:
    """No event is to blame, so none is tried again."""
    given, reasons = Publication("while True: pass").run(tmp_path, numbers(3))
    assert ([], ["CodeEnded: while it was loaded, it took over 1 s of CPU"] * 3) == (given, reasons)


@pytest.mark.parametrize(
    "sent",
    [
        "b'\\xff' * 10_000",
        "bytes(100)",
        "frame(b'\\x81\\xa8outcomes\\x91\\x91\\xa1x')",
        "frame(b'\\x81\\xa8outcomes\\x92\\x91\\x01\\x91\\x01')",
        "frame(b'\\x81\\xa8outcomes\\x91\\x80')",
        "frame(b'\\xc1')",
    ],
    ids=["noise", "zeros", "another kind", "too many", "no failure", "no message"],
)
def test_results_that_the_function_did_not_give_are_refused(tmp_path: Path, sent: str) -> None:
    """Code that writes to the pipe of results gains nothing: its events are dead letters, the worker goes on."""
    text = "import os, struct\ndef frame(content):\n    return struct.pack('>Q', len(content)) + content\n"
    text += f"def entry(event):\n    os.write(3, {sent})\n    os._exit(0)\n"
    given, reasons = Publication(text).run(tmp_path, numbers(1))
    assert ([], 1) == (given, len(reasons))
    assert reasons[0].startswith(("WrongOutput", "CodeEnded"))
    assert ([{"n": 0, "m": 1}], []) == Publication("def entry(event): return {'m': 1}").run(tmp_path, numbers(1))


@pytest.mark.parametrize(
    ("code", "given"),
    [
        ("import sqlite3; return {'m': str(sqlite3.connect(':memory:').execute('select 1 + 1').fetchone()[0])}", "2"),
        ("import xml.etree.ElementTree as tree; return {'m': tree.fromstring('<a b=\"1\"/>').get('b')}", "1"),
        ("import zoneinfo; return {'m': zoneinfo.ZoneInfo('Europe/Berlin').key}", "Europe/Berlin"),
        ("import numpy; return {'m': str(numpy.arange(3).sum())}", "3"),
        ("import networkx; return {'m': str(networkx.path_graph(3).number_of_edges())}", "2"),
    ],
)
def test_code_may_import_what_is_installed(tmp_path: Path, code: str, given: str) -> None:
    """The standard library and packages, even if nothing has loaded them before."""
    assert given == attempt(tmp_path, code)


@pytest.mark.parametrize("per", ["event", "batch"])
def test_many_large_events_go_both_ways(tmp_path: Path, per: str) -> None:
    """More than pipes hold, and more than a cell takes at once; in order."""
    text = "def entry(event): return {'m': event['n'][::-1]}"
    if per == "batch":
        text = "import pyarrow as pa\ndef entry(batch):\n"
        text += "    return pa.record_batch({'m': [each[::-1] for each in batch['n'].to_pylist()]})"
    events = [{"n": f"{number:06}" + "x" * 500} for number in range(12_000)]
    given, reasons = Publication(text, TEXT, {"n": "string"}, per=per).run(tmp_path, events)
    assert ([each["n"][::-1] for each in events], []) == ([each["m"] for each in given], reasons)


def test_cells_leave_nothing_open(tmp_path: Path) -> None:
    """Neither in the worker nor in their parent, whatever became of them."""
    texts = ["def entry(event): return {'m': 1}", "import os\ndef entry(event): os._exit(1)", "def entry(event)"]

    def handles() -> list[int]:
        pid = cells("event").pid
        assert pid is not None
        return [psutil.Process().num_fds(), psutil.Process(pid).num_fds(), len(psutil.Process(pid).children())]

    Publication(texts[0]).run(tmp_path, numbers(1))
    before = handles()
    for text in texts:
        Publication(text).run(tmp_path, numbers(2))
    assert before == handles()


def test_nothing_is_left_for_the_next_batch_or_another_task(tmp_path: Path) -> None:
    """Neither what a module keeps, nor what is changed in Python's modules, nor what lies in memory."""
    text = "import json, sys, builtins\nseen = []\ndef entry(event):\n    seen.append(event['n'])\n"
    text += "    before = getattr(builtins, 'left', None)\n    builtins.left = 'something'\n"
    text += "    json.dumps = None\n    return {'m': f'{seen} {before}'}"
    first = Publication(text, TEXT).trial(tmp_path)
    second = Publication(text, TEXT).trial(tmp_path)
    given = [
        trial.take([("in", each) for each in numbers(1)]).emitted["out"].rows.column("m").to_pylist()
        for trial in (first, first, second)
    ]
    assert [["[0] None"]] * 3 == given


def test_modules_of_braid_that_code_changes_are_not_those_of_the_worker(tmp_path: Path) -> None:
    """What it finds in its process is a copy, with which it harms nobody."""
    text = "import sys\ndef entry(event):\n    for name in list(sys.modules):\n"
    text += (
        "        if name.startswith('engine.'):\n            sys.modules[name].__dict__.clear()\n    return {'m': 1}"
    )
    Publication(text).run(tmp_path, numbers(1))
    assert ([{"n": 0, "m": 1}], []) == Publication("def entry(event): return {'m': 1}").run(tmp_path, numbers(1))


def test_the_parent_of_the_cells_is_started_once_and_again_when_it_died(tmp_path: Path) -> None:
    """A killed one costs no event."""
    publication = Publication("def entry(event): return {'m': 1}")
    trial = publication.trial(tmp_path)
    pids = []
    for kills in (False, True, False):
        assert 1 == len(trial.take([("in", {"n": 0})]).emitted["out"])
        pid = cells("event").pid
        pids.append(pid)
        if kills and pid is not None:
            psutil.Process(pid).kill()
    assert pids[0] == pids[1] != pids[2]


def test_the_parent_ends_with_its_worker() -> None:
    """It notices that the socket is closed."""
    own = Cells("event")
    own.run(b"", path="/nowhere", seconds=5.0)
    assert own._parent is not None
    own._parent._control.close()
    assert 0 == own._parent.process.wait(timeout=60)
    own.close()


def test_what_a_cell_uses_counts_for_its_task(tmp_path: Path) -> None:
    """So a tenant pays for it."""
    before = task_cpu_ns()
    text = "def entry(event):\n    for _ in range(3_000_000): pass\n    return {'m': 1}"
    assert ([{"n": 0, "m": 1}], []) == Publication(text).run(tmp_path, numbers(1))
    # Some twenty times what the worker does for it.
    assert task_cpu_ns() - before > 30_000_000


def test_the_parent_of_the_cells_never_has_their_data(tmp_path: Path) -> None:
    """Each cell gets a copy of its memory, in which what was freed could be found."""
    marks = ["quince-" * 9, "medlar-" * 9]
    text = f"def entry(event):\n    assert {marks[1]!r}\n    return {{'m': event['n'] * 2}}"
    given = Publication(text, TEXT, {"n": "string"}).run(tmp_path, [{"n": marks[0]}])[0]
    assert [marks[0] * 2] == [each["m"] for each in given]
    pid = cells("event").pid
    assert pid is not None
    memory = memory_of(pid)
    assert b"engine.code.cell.parent" in memory
    assert [False, False] == [mark.encode() in memory for mark in marks]


def memory_of(pid: int) -> bytes:
    """All that a process has in its memory."""
    found = bytearray()
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines():
            place, rights, *_ = line.split()
            start, end = (int(each, 16) for each in place.split("-"))
            if rights.startswith("rw") and "[v" not in line:
                memory.seek(start)
                found += memory.read(end - start)
    return bytes(found)


def test_code_does_not_run_where_it_could_read_braids_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """If the root is among the folders of Python, say."""
    monkeypatch.setattr(confinement, "readable_folders", lambda: [str(tmp_path.resolve())])
    (reason,) = set(Publication("def entry(event): return {'m': 1}").run(tmp_path / "root", numbers(2))[1])
    assert "could read Braid's files" in reason


def test_code_does_not_run_where_it_cannot_be_confined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine of another kind, or a kernel without the means: every event is a dead letter that says so."""
    broken = "import platform; platform.machine = lambda: 'pdp11'; " + cells_module._PROGRAM
    monkeypatch.setattr(cells_module, "_PROGRAM", broken)
    own = Cells("event")
    with pytest.raises(NoCells, match=r"cannot be confined on this machine.*not pdp11"):
        own.run(b"", path=str(tmp_path / "x"), seconds=5.0)


def test_the_parent_starts_from_the_archive_of_a_cluster_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the worker has Braid's code from its host only."""
    monkeypatch.setattr(cells_module, "_BRAID", str(pack_code(tmp_path)))
    own = Cells("batch")
    assert "" == own.run(b"", path=str(tmp_path / "x"), seconds=5.0).why
    own.close()


def test_no_system_call_that_makes_or_reaches_anything_is_allowed() -> None:
    """By the numbers of x86-64, whatever may be added to the list: sockets, processes, signals, mounts, tracing."""
    never = {
        41,
        42,
        43,
        44,
        49,
        53,
        56,
        57,
        58,
        59,
        62,
        101,
        105,
        155,
        157,
        160,
        165,
        200,
        234,
        272,
        302,
        308,
        310,
        321,
    }
    never |= {322, 323, 425, 426, 427, 434, 435, 438}
    assert not never & set(confinement._ALLOWED.values())


def test_a_missing_source_is_named_and_found_once_it_is_put(tmp_path: Path) -> None:
    """Nothing has to be restarted: the next batch finds it."""
    publication = Publication("def entry(event): return {'m': 1}")
    trial = publication.trial(tmp_path)
    path = Path(CodeStore(tmp_path).path(digest_of(publication.text)))
    kept = path.read_bytes()
    path.unlink()
    (dead,) = trial.take([("in", each) for each in numbers(2)]).dead
    assert f"the source {digest_of(publication.text)} is not in the root; publish it again" in dead.reason
    path.write_bytes(kept + b"#")
    assert "is damaged" in trial.take([("in", {"n": 1})]).dead[0].reason
    path.rename(path.with_suffix(".broken"))
    CodeStore(tmp_path).put(digest_of(publication.text), publication.text)
    assert 1 == len(trial.take([("in", {"n": 1})]).emitted["out"])


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
