"""The log of a command: the same for people and for programs, with its subject."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from engine.log_lines import about, log_context, note

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
