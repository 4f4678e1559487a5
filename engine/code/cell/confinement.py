"""The confinement of a cell: limits, no privileges, no files, no system calls but those that compute.

System calls are denied by a seccomp filter of the kernel. Those that are left compute, manage the process's own memory,
read files and the clock, and write to what is open. None makes a socket, a process or a thread, sends a signal, waits,
changes a limit or executes a program. Code that connects may besides use sockets that it was given, and wait for them;
it can neither make one, nor connect, bind or send one on.

Files are denied by Landlock, except those of Python and its packages, which a cell may read; it may write none.
Landlock is part of the kernel since version 5.13. It needs no privileges, and holds for root too.
"""

import ctypes
import fcntl
import os
import platform
import resource
import signal
import struct
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

_ALLOWED = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "mmap": 9, "mprotect": 10,
    "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pread64": 17, "readv": 19,
    "writev": 20, "access": 21, "sched_yield": 24, "mremap": 25, "madvise": 28, "getpid": 39, "exit": 60, "uname": 63,
    "getcwd": 79, "readlink": 89, "gettimeofday": 96, "getrusage": 98, "times": 100, "getuid": 102, "getgid": 104,
    "geteuid": 107, "getegid": 108, "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202,
    "sched_getaffinity": 204, "getdents64": 217, "restart_syscall": 219, "clock_gettime": 228, "clock_getres": 229,
    "exit_group": 231, "openat": 257, "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "set_robust_list": 273,
    "getrandom": 318, "statx": 332, "rseq": 334, "faccessat2": 439,
}  # fmt: skip
"""The calls with their numbers on x86-64."""
_ON_SOCKETS = {
    "poll": 7, "select": 23, "recvfrom": 45, "recvmsg": 47, "shutdown": 48, "getsockname": 51, "getpeername": 52,
    "pselect6": 270, "ppoll": 271,
}  # fmt: skip
"""The further calls of code that connects."""
_SENDTO, _IOCTL = 44, 16
_ADDRESS_OF_SENDTO, _FLAGS_OF_SENDTO, _REQUEST_OF_IOCTL = 4, 3, 1
_FAST_OPEN, _SET_NONBLOCKING = 0x20000000, 0x5421
_MACHINE, _AUDIT_ARCH = "x86_64", 0xC000003E
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
"""Instructions of the kernel's filter machine: load a word of the call, jump if equal or if any bit is set, return."""
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
"""The second makes the call fail with the error EPERM."""
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER_MODE = 38, 22, 2


def _argument(place: int, *, high: bool = False) -> tuple[int, int, int, int]:
    """Load half of an argument."""
    return (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * place + 4 * high)


_SENDING = [
    (_EQUAL, 0, 8, _SENDTO),
    # An address, or the opening of a connection with the first data, would lead elsewhere.
    _argument(_ADDRESS_OF_SENDTO),
    (_EQUAL, 0, 4, 0),
    _argument(_ADDRESS_OF_SENDTO, high=True),
    (_EQUAL, 0, 2, 0),
    _argument(_FLAGS_OF_SENDTO),
    (_ANY_BIT, 0, 1, _FAST_OPEN),
    (_RETURN, 0, 0, _DENY),
    (_RETURN, 0, 0, _ALLOW),
]
"""Allows to send on a connected socket; other calls go on after it."""
_UNBLOCKING = [
    (_EQUAL, 0, 4, _IOCTL),
    _argument(_REQUEST_OF_IOCTL),
    (_EQUAL, 1, 0, _SET_NONBLOCKING),
    (_RETURN, 0, 0, _DENY),
    (_RETURN, 0, 0, _ALLOW),
]
"""Allows to set whether a socket waits; other calls go on after it."""


class CannotConfine(RuntimeError):
    """This machine cannot confine code. Says what is missing."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def deny_others(libc: ctypes.CDLL, *, connects: bool) -> None:
    """Deny this process all other system calls, for good. Each fails as if it were forbidden to the user."""
    if platform.machine() != _MACHINE:
        raise CannotConfine(f"the filter of system calls is written for {_MACHINE}, not {platform.machine()}")
    code = filter_code(connects=connects)
    program = _Program(len(code) // 8, code)
    if libc.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0):
        raise CannotConfine(f"the kernel has no seccomp filters (error {ctypes.get_errno()})")


def filter_code(*, connects: bool) -> bytes:
    """The filter as a program of the kernel."""
    numbers = sorted((_ALLOWED | (_ON_SOCKETS if connects else {})).values())
    code = [(_LOAD, 0, 0, _ARCH_AT), (_EQUAL, 1, 0, _AUDIT_ARCH), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER_AT)]
    if connects:
        code += _SENDING + _UNBLOCKING
    # Each jumps to the last instruction.
    code += [(_EQUAL, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    code += [(_RETURN, 0, 0, _DENY), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("=HBBI", *step) for step in code)


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
    folders = {os.path.realpath(path) for path in (*python, *_SYSTEM) if Path(path).is_dir()}
    return sorted(folders)


def certificate_folders() -> list[str]:
    """The folders with the certificates of authorities that this machine trusts; all are public."""
    return sorted({os.path.realpath(path) for path in _CERTIFICATES if Path(path).is_dir()})


def exposing(path: str) -> str:
    """The folder of Python that contains a path and would expose it; empty if there is none."""
    real = Path(path).resolve()
    return next((folder for folder in readable_folders() if real.is_relative_to(folder)), "")


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
    for path, right in (*((path, _READ) for path in folders), *((path, _READ_FILE) for path in files)):
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
    sys.path[:] = [path for path in sys.path if path and any(Path(path).is_relative_to(f) for f in readable_folders())]


CPU_SECONDS = 10
"""The most CPU of one cell."""
MEMORY = 512 * 1024 * 1024
"""The memory that a cell may take beside that of Python and its packages, in bytes."""
_MOST_OPEN = 32
_DIE_WITH_PARENT = 1
_FIRST_KEPT = 3


def close_others(*kept: int) -> list[int]:
    """Close all that this process has open but some handles, whose new numbers are returned.

    Its standard streams stay too. They lead nowhere already.
    """
    # First above all new numbers, so that none takes the place of another.
    moved = [fcntl.fcntl(handle, fcntl.F_DUPFD, _FIRST_KEPT + len(kept)) for handle in kept]
    numbers = [os.dup2(handle, _FIRST_KEPT + at) for at, handle in enumerate(moved)]
    os.closerange(_FIRST_KEPT + len(kept), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
    return numbers


def confine(folders: Iterable[str], files: Iterable[str], *, connects: bool) -> None:
    """Confine this process for good. It may read these folders and files, and use sockets that it is given or none."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_DIE_WITH_PARENT, signal.SIGKILL, 0, 0, 0)
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    memory = pages * resource.getpagesize() + MEMORY
    for which, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_NOFILE, _MOST_OPEN),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        resource.setrlimit(which, (most, most))
    # No program of this process ever gets more rights than it; the kernel asks for that first.
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise CannotConfine(f"the kernel refuses PR_SET_NO_NEW_PRIVS, with error {ctypes.get_errno()}")
    allow_reading(libc, folders, files)
    deny_others(libc, connects=connects)
