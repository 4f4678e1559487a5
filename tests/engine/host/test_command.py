"""The options of `braid host`, what the command says of bad ones, and the log of a command."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import product
from pathlib import Path

import pytest

from engine.host.command import look_at_store
from engine.host.keeper import CopyAddress, MachineOptions
from engine.log_lines import about, log_context, note
from engine.replicas.channel import TlsFiles

BRAID = Path(sys.executable).parent / "braid"
PATHS = {"certificate": Path("c.pem"), "key": Path("c.key"), "authority": Path("ca.pem")}
OPTIONS = {"certificate": "--copies-certificate", "key": "--copies-key", "authority": "--copies-ca"}


def test_without_options_a_machine_takes_no_copies() -> None:
    """It shares its root."""
    assert CopyAddress.parse("") is None


def test_an_address_alone_means_copies_in_clear() -> None:
    """As on a network of one's own."""
    assert CopyAddress(host="north.example", port=8700) == CopyAddress.parse("north.example:8700")


@pytest.mark.parametrize("given", [each for each in product([False, True], repeat=3) if any(each)])
def test_the_three_files_belong_together(given: tuple[bool, ...]) -> None:
    """All of them are taken; with fewer, the message names those that are missing, or the address if that is."""
    chosen = {name: path for (name, path), there in zip(PATHS.items(), given, strict=True) if there}
    missing = [OPTIONS[name] for name in PATHS if name not in chosen]
    if missing:
        with pytest.raises(ValueError, match=f"belong together; {', '.join(missing)} is missing$"):
            CopyAddress.parse("10.0.0.1:8700", **chosen)
    else:
        files = TlsFiles(**{name: path.absolute() for name, path in PATHS.items()})
        assert CopyAddress(host="10.0.0.1", port=8700, files=files) == CopyAddress.parse("10.0.0.1:8700", **chosen)
    with pytest.raises(ValueError, match="give --copies-at as well"):
        CopyAddress.parse("", **chosen)


@pytest.mark.parametrize("at", ["north", ":8700", "north:", "north:a"])
def test_what_is_no_address_is_refused(at: str) -> None:
    """The message says what one looks like."""
    with pytest.raises(ValueError, match=f"--copies-at {at} is no address; give it as host:port"):
        CopyAddress.parse(at)
    with pytest.raises(ValueError, match=f"--copies-listen {at} is no address; give it as host:port"):
        CopyAddress.parse("north:8700", at)


def test_a_machine_behind_a_forwarded_port_listens_elsewhere() -> None:
    """Others are given the address at which they reach it; without one, the address where it listens."""
    forwarded = CopyAddress.parse("north.example:8700", "0.0.0.0:1")
    plain = CopyAddress.parse("north.example:8700")
    assert forwarded is not None
    assert plain is not None
    assert (("0.0.0.0", 1), "north.example:8700") == (forwarded.listen, forwarded.reached_at("0.0.0.0:1"))  # noqa: S104 - of nothing
    assert (("north.example", 8700), "north.example:8701") == (plain.listen, plain.reached_at("north.example:8701"))
    with pytest.raises(ValueError, match="give --copies-at as well"):
        CopyAddress.parse("", "0.0.0.0:1")


@pytest.mark.parametrize("listen", ["", "0.0.0.0:8701"])
@pytest.mark.parametrize("paths", [{}, PATHS])
def test_the_process_gets_the_same_options(paths: dict[str, Path], listen: str) -> None:
    """What a machine's process reads is what the command wrote."""
    copies = CopyAddress.parse("10.0.0.1:8700", listen, **paths)
    options = MachineOptions(tags=("gpu",), hosts=2, copies=copies, common=Path("/common"), store="s3://b")
    assert options == MachineOptions.read(options.written())
    assert MachineOptions() == MachineOptions.read(MachineOptions().written())


def test_the_command_does_not_begin_with_files_that_do_not_fit(tmp_path: Path) -> None:
    """It says so in one line, and starts neither a broker nor a host."""
    options = ["--copies-at=127.0.0.1:8700", "--copies-certificate=a", "--copies-key=b", "--copies-ca=c"]
    done = subprocess.run(  # noqa: S603 - our own command
        [str(BRAID), "host", "north", "--root=root", *options],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
    )
    assert (1, f"{tmp_path / 'a'} cannot be read: No such file or directory\n") == (done.returncode, done.stderr)
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "restore", "accept_loss", "why"),
    [
        ("", True, False, "--restore and --accept-loss are about a store; give --store as well"),
        ("", False, True, "--restore and --accept-loss are about a store; give --store as well"),
        ("file:///s", False, True, "--accept-loss is for --restore; give both or none"),
        ("bucket", False, False, "'bucket' is no URL of a store; give one such as s3://bucket/folder or file:///mnt/"),
        ("memory://none", True, False, "memory://none/h has no files of a host; see whether URL and name are those of"),
    ],
)
def test_the_command_does_not_begin_with_a_store_that_does_not_fit(
    tmp_path: Path, url: str, why: str, *, restore: bool, accept_loss: bool
) -> None:
    """It says in one line what to do, and leaves the folder empty."""
    with pytest.raises(ValueError, match=f"^{why}"):
        look_at_store("h", tmp_path / "root", url, restore=restore, accept_loss=accept_loss)
    assert [] == list(tmp_path.iterdir())


def test_a_store_that_is_only_written_to_is_not_asked(tmp_path: Path) -> None:
    """It may be away for a moment; the leader drops it as long as it is."""
    assert "" == look_at_store("h", tmp_path, "s3://bucket/folder", restore=False, accept_loss=False)
    assert "" == look_at_store("h", tmp_path, "", restore=False, accept_loss=False)


PROGRAM = """
import logging, subprocess, sys
from engine.log_lines import about, begin_log, named
begin_log(as_json={form})
log = logging.getLogger("braid.test")
with about(request="r-1"):
    log.info("goes on", extra=named("went", on=3))
log.warning("ends")
if {starts}:
    code = "import logging; from engine.log_lines import begin_log; begin_log(); logging.warning('a child')"
    subprocess.run([sys.executable, "-c", code], check=True)
"""


def run(form: str, *, starts: bool = False, **environment: str) -> "subprocess.CompletedProcess[str]":
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BRAID_")}
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", PROGRAM.format(form=form, starts=starts)],
        env=kept | environment,
        capture_output=True,
        text=True,
        check=True,
    )


def test_programs_read_objects_even_of_child_processes() -> None:
    """Each line is an object with its subject and event; so are the lines of a child process."""
    done = run("True", starts=True)
    first, second, childs = map(json.loads, done.stdout.splitlines())
    assert ("goes on", "r-1", "went", 3) == tuple(first[name] for name in ("message", "request", "event", "on"))
    assert ("ends", "warning", False) == (second["message"], second["level"], "request" in second)
    assert "a child" == childs["message"]
    assert "" == done.stderr


def test_people_read_lines_whatever_this_was_started_by() -> None:
    """On standard error, with the subject at the end. A given format overrides that of the parent."""
    done = run("False", starts=True, BRAID_LOG="json")
    first, second, childs = done.stderr.splitlines()
    assert first.endswith("braid.test INFO goes on [request=r-1]")
    assert [True, True] == [second.endswith("WARNING ends"), childs.endswith("WARNING a child")]
    assert "" == done.stdout


def test_the_subject_ends_with_its_context() -> None:
    """Even after an error. The outer context does not change."""
    with about(request="r-1"):
        with pytest.raises(ZeroDivisionError), about(job="7"):
            raise ZeroDivisionError
        assert {"request": "r-1"} == log_context()
    note(dataflow="nobody's")
    assert {} == log_context()


def test_ids_noted_in_a_thread_reach_its_caller() -> None:
    """They are in the request's later lines and in no others."""
    with about(request="r-1"), ThreadPoolExecutor(1) as threads:
        threads.submit(copy_context().run, note, dataflow="d-1").result()
        with about(job="7"):
            note(dataflow="d-2")
        assert {"request": "r-1", "dataflow": "d-1"} == log_context()
