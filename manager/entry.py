"""The beginning of the command `braid`: help that was shown before is shown again without loading what it describes.

It is kept as bytecode is: in a file, which holds as long as nothing has changed that it was made of. So nothing is
imported here that help does without.
"""

import io
import marshal
import os
import sys
from typing import Any

_OUTPUT = sys.stdout
_LOOKS = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "PY_COLORS", "TERM", "TERMINAL_WIDTH", "TTY_COMPATIBLE")
"""What the looks of help depend on, besides the terminal."""


class _Text(io.StringIO):
    """What is written, as if it were to standard output."""

    encoding = sys.stdout.encoding

    def isatty(self) -> bool:
        """Whether standard output is a terminal."""
        return _OUTPUT.isatty()


def main() -> None:
    """Do what was typed; help is kept, and shown as it was kept."""
    words = sys.argv[1:]
    path = _place(words) if words[-1:] == ["--help"] else ""
    if not path:
        _do()
        return
    made_for = (sys.version, tuple(sys.path), tuple(map(os.environ.get, _LOOKS)), _terminal())
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - pathlib takes as long to load as all else here
            known_for, text, files = marshal.load(file)  # noqa: S302 - the user's own file
        if known_for == made_for and all(_changed(name) == changed for name, changed in files):
            sys.stdout.write(text)
            return
    except (OSError, EOFError, ValueError, TypeError):
        # There is none, or one of another release.
        pass
    sys.stdout = written = _Text()
    try:
        _do()
    except SystemExit as end:
        if not end.code:
            _keep(path, (made_for, written.getvalue(), [(name, _changed(name)) for name in _sources()]))
        raise
    finally:
        sys.stdout = _OUTPUT
        sys.stdout.write(written.getvalue())


def _do() -> None:
    from manager import command  # noqa: PLC0415 - not for help that is kept

    command.main()


def _place(words: list[str]) -> str:
    """The file for the help that is asked for; empty if it may have no name of its own."""
    if not all(word.replace("-", "").isalnum() for word in words):
        return ""
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 - as above
    return f"{caches}/braid/help/{'.'.join(words)}"


def _terminal() -> tuple[bool, int]:
    try:
        return sys.stdout.isatty(), os.get_terminal_size(1).columns
    except OSError:
        return False, 0


def _changed(name: str) -> int | None:
    """When a file was changed, or a folder; None if it is not there."""
    try:
        return os.stat(name).st_mtime_ns  # noqa: PTH116 - as above
    except OSError:
        return None


def _sources() -> set[str]:
    """What help was made of: all that is loaded, the commands whose source was only read, and what is installed."""
    from importlib.util import find_spec  # noqa: PLC0415 - not for help that is kept

    from manager.command import COMMANDS  # noqa: PLC0415 - likewise

    loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    read = [spec.origin for command in COMMANDS if (spec := find_spec(command.target.partition(":")[0])) is not None]
    return {name for name in (*loaded, *read, *filter(os.path.isdir, sys.path)) if name}


def _keep(path: str, what: Any) -> None:
    try:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)  # noqa: PTH103, PTH120 - as above
        with open(f"{path}.{os.getpid()}", "wb") as file:  # noqa: PTH123 - as above
            marshal.dump(what, file)
        os.replace(file.name, path)  # noqa: PTH105 - as above
    except OSError:
        # Where nothing can be kept, help is made each time.
        pass
