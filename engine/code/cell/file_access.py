"""The files that a cell may read, by Landlock: Python and its packages, and nothing else; it may write none.

Landlock is part of the kernel since version 5.13. It needs no privileges, and holds for root too.
"""

import ctypes
import os
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from engine.code.cell.system_calls import CannotConfine

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1
_READ_FILE = 1 << 2
_READ = _READ_FILE | 1 << 3
"""To read files, and to list folders."""
_ALL_RIGHTS = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 4: 1 << 15, 5: 1 << 16}
"""One more than the sum of all rights to files that each version of Landlock knows; later ones know no more."""
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/share/zoneinfo")
"""Folders of libraries that Python's modules load."""
_CERTIFICATES = ("/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/pki/ca-trust/extracted", "/usr/share/ca-certificates")


def readable_folders() -> list[str]:
    """The folders with Python's modules, installed packages, and the system's libraries."""
    paths = sysconfig.get_paths()
    python = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    found = {os.path.realpath(each) for each in (*python, *_SYSTEM) if Path(each).is_dir()}
    return sorted(found)


def certificate_folders() -> list[str]:
    """The folders with the certificates of authorities that this machine trusts; all are public."""
    return sorted({os.path.realpath(each) for each in _CERTIFICATES if Path(each).is_dir()})


def exposing(path: str) -> str:
    """The folder of Python that contains a path and would expose it; empty if there is none."""
    real = Path(path).resolve()
    return next((each for each in readable_folders() if real.is_relative_to(each)), "")


def allow_reading(libc: ctypes.CDLL, folders: Iterable[str], files: Iterable[str]) -> None:
    """Deny this process all access to files, for good, except reading these and those below these folders."""
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(_ASK_VERSION))
    if version < 1:
        raise CannotConfine("the kernel has no Landlock; use Linux 5.13 or later, with Landlock among its LSMs")
    rights = _ALL_RIGHTS[min(version, max(_ALL_RIGHTS))] - 1
    attributes = struct.pack("=Q", rights)
    rules = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0))
    if rules < 0:
        raise CannotConfine(f"the kernel refuses rules of Landlock, with error {ctypes.get_errno()}")
    for path, right in (*((each, _READ) for each in folders), *((each, _READ_FILE) for each in files)):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", right, handle)
        if libc.syscall(_ADD_RULE, rules, ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint32(0)):
            raise CannotConfine(f"the kernel refuses a rule of Landlock, with error {ctypes.get_errno()}")
        os.close(handle)
    if libc.syscall(_RESTRICT_SELF, rules, ctypes.c_uint32(0)):
        raise CannotConfine(f"the kernel does not restrict by Landlock, with error {ctypes.get_errno()}")
    os.close(rules)


def forget_other_places() -> None:
    """Have imports look only where they may read."""
    sys.path[:] = [each for each in sys.path if each and any(Path(each).is_relative_to(f) for f in readable_folders())]
