"""The command line: how long help takes that was shown before, help that was not, and a request to a service.

The service here answers at once, so that what is measured is the command. All take turns, and are also given as a
multiple of the start of Python and its packages for commands, `import typer, pydantic, httpx`, in the same run.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from benchmarks.instruments import Figures, clocked, report, scratch_folder

_ROUNDS = 20
_BEGIN = "from manager.entry import main; main()"
_PACKAGES = "import typer, pydantic, httpx; pydantic.BaseModel"


class _Empty(BaseHTTPRequestHandler):
    """Answers with a list of nothing."""

    def do_GET(self) -> None:
        """Answer."""
        body = b'{"items": [], "next": null}'
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_words: object) -> None:
        """Say nothing."""


@contextmanager
def _service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Empty)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def measured(*, quick: bool = False) -> Figures:
    """Seconds of each call: median, least, least of CPU, and the median as a multiple of that of the packages."""
    calls = {
        "packages": [_PACKAGES],
        "help_again": [_BEGIN, "list", "--help"],
        "help_anew": [_BEGIN, "list", "--help"],
        "request": [_BEGIN, "list"],
    }
    taken: dict[str, list[float]] = {name: [] for name in calls}
    cpu: dict[str, list[float]] = {name: [] for name in calls}
    with scratch_folder() as folder, _service() as url:
        environment = {**os.environ, "BRAID_URL": url, "BRAID_KEY": "x", "XDG_CACHE_HOME": str(folder)}
        _run(calls["help_again"], environment)
        for _ in range(3 if quick else _ROUNDS):
            for name, words in calls.items():
                kept = folder / "braid"
                if name == "help_anew":
                    shutil.rmtree(kept)
                before = _cpu()
                taken[name].append(clocked(_run, words, environment)[1])
                cpu[name].append(_cpu() - before)
    whole = statistics.median(taken["packages"])
    figures: Figures = {
        name: {
            "p50": round(statistics.median(seconds), 3),
            "least": round(min(seconds), 3),
            "least_cpu": round(min(cpu[name]), 3),
            "of_packages": round(statistics.median(seconds) / whole, 2),
        }
        for name, seconds in taken.items()
    }
    report("commands, s", figures)
    return figures


def _run(words: list[str], environment: dict[str, str]) -> None:
    subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-c", *words],
        env=environment,
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=Path(__file__).parents[1],
    )


def _cpu() -> float:
    """Seconds of CPU that calls took by now."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
