"""Mutation testing of the core, with the score on record.

    python -m tests.mutation [--sample N] [MODULE...]
    python -m tests.mutation --mutants MUTANT...

mutmut makes the mutants of each module in `dags/` and `merge/`; a sample of them is drawn, the same each time. A mutant
is judged in a fork of one process that has collected the tests: those that reach its function run until one fails. It
is caught when a test fails or never ends, and missed when all pass or no test reaches it.

Prints what missed mutants change, and records the score in `tests/mutation.json`, also if it is interrupted. With
modules named, only theirs are judged, and the record keeps its figures of the others. Fails below the goal.
"""

import argparse
import gc
import importlib
import json
import linecache
import math
import multiprocessing
import random
import resource
import signal
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from difflib import unified_diff
from functools import wraps
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from itertools import zip_longest
from multiprocessing.connection import Connection
from pathlib import Path
from time import process_time
from types import CodeType
from typing import Any

import pytest
from _pytest.runner import runtestprotocol
from mutmut.configuration import config
from mutmut.mutation import trampoline
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.mutation.trampoline_templates import mangle_function_name

GOAL = 95.0
ROOT = Path(__file__).parents[1]
RECORD = Path(__file__).with_suffix(".json")
_PACKAGES = [str(path) for path in config().source_paths]
# The tests that hold the modules of a room.
_ROOMS = {
    "dags": (
        *("dags", "tests/dags", "tests/golden", "tests/laws/test_signatures.py", "tests/oracle"),
        *("tests/merge/test_shards.py", "tests/manager/documents", "tests/bridge/test_source_topics.py"),
        *("tests/manager/sources/test_connectors.py", "tests/manager/sources/test_connected_sources.py"),
        "tests/manager/sources/test_source_filters.py",
    ),
    "merge": (
        *("merge", "tests/golden", "tests/laws/test_merge.py", "tests/laws/test_shards.py", "tests/laws/test_steps.py"),
        *("tests/merge/test_jobs.py", "tests/merge/test_running_graph.py", "tests/merge/test_shards.py"),
        *("tests/merge/test_capacity.py", "tests/merge/test_tasks.py", "tests/merge/placement", "tests/oracle"),
    ),
    "merge.consolidation": (
        *(
            "merge/consolidation",
            "tests/merge/consolidation",
            "tests/merge/test_shards.py",
            "tests/laws/test_shards.py",
        ),
        *("tests/laws/test_defragmentation.py", "tests/laws/test_steps.py"),
    ),
    "merge.grouping": ("merge/grouping", "tests/merge/grouping", "tests/merge/placement"),
    "merge.placement": (
        *("merge/placement", "tests/merge/placement", "tests/merge/test_shards.py", "tests/laws/test_shards.py"),
        *("tests/laws/test_placement.py", "tests/laws/test_roots.py"),
    ),
    "merge.reconfiguration": (
        *("merge/reconfiguration", "tests/merge/test_alteration.py", "tests/merge/test_switches.py"),
        *("tests/merge/test_reconfiguration.py", "tests/manager/reconfigurations"),
    ),
}
_OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "--hypothesis-profile=mutation"),
    *("-m", "not spark and not full and not slow and not chaos and not bare"),
    # This one runs a module in other Pythons, which would not be mutated.
    "--deselect=tests/dags/test_internet_addresses.py::test_every_python_here_agrees",
)
_ORIGINAL = "_mutmut_orig"
_MISSED = {"survived", "unreached"}
# How much sooner tests run that are named after a module: many others may reach it, and look at something else.
_NAMED = 10
# How long the tests of one mutant may take the processor, and what it may allocate.
_SECONDS = 5.0
_BYTES = 6 << 30
_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Figures:
    """How many mutants a module has, and what became of those that were judged."""

    mutants: int
    judged: int
    caught: int
    unreached: int
    date: str

    @property
    def variance(self) -> float:
        """The variance of how many of all mutants are caught, which is 0 where all were judged."""
        share = self.caught / self.judged
        return self.mutants * (self.mutants - self.judged) * share * (1 - share) / self.judged


class Versions:
    """The versions of each mutated function, of which one acts; mutmut's own way looks for it at every call."""

    def __init__(self) -> None:
        self.reached: set[str] = set()
        """The functions that were called."""
        self._versions: dict[str, dict[str, Callable[..., Any]]] = {}

    def switched(
        self,
        versions: dict[str, Callable[..., Any]],
        is_classmethod: bool = False,  # noqa: FBT001, FBT002 - as mutmut calls it
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Decorate a function so that its present version acts."""

        def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
            owner, _, name = function.__qualname__.rpartition(".")
            known = f"{function.__module__}.{mangle_function_name(name=name, class_name=owner or None)}"
            self._versions[known] = versions

            @wraps(function)
            def acting(*args: Any, **kwargs: Any) -> Any:
                self.reached.add(known)
                if is_classmethod:
                    return getattr(args[0], versions[_ORIGINAL].__name__)(*args[1:], **kwargs)
                return versions[_ORIGINAL](*args, **kwargs)

            return acting

        return decorated

    def choose(self, mutant: str) -> None:
        """Have a mutant act in place of its function."""
        versions = self._versions[_function(mutant)]
        versions[_ORIGINAL] = versions[mutant.rpartition(".")[2]]


VERSIONS = Versions()


class MutatingLoader(SourceFileLoader):
    """Loads a module together with its mutants, of which none acts before it is chosen."""

    mutated: MutatedFile

    def get_code(self, fullname: str) -> CodeType:
        """Compile what mutmut makes of the source."""
        path = self.get_filename(fullname)
        self.mutated = mutate_file_contents(path, Path(path).read_text(encoding="utf-8"))
        # For what reads its own source, as pydantic does.
        linecache.cache[path] = (len(self.mutated.code), None, self.mutated.code.splitlines(keepends=True), path)
        return compile(self.mutated.code, path, "exec", dont_inherit=True)


class MutatingFinder:
    """Finds the modules that are mutated, before anything else does."""

    def __init__(self, modules: Sequence[str]) -> None:
        self.loaders: dict[str, MutatingLoader] = {}
        self._modules = frozenset(modules)

    def find_spec(self, name: str, path: Sequence[str] | None, _target: object = None) -> ModuleSpec | None:
        """What loads the module of this name, where it is mutated."""
        spec = PathFinder.find_spec(name, path) if name in self._modules else None
        if spec and spec.origin:
            spec.loader = self.loaders[name] = MutatingLoader(name, spec.origin)
        return spec


class Judge:
    """A pytest plugin that runs the tests on each mutant instead of once."""

    def __init__(self, mutants: Sequence[str], mutated: Mapping[str, MutatedFile]) -> None:
        self.verdicts: dict[str, str] = {}
        self._mutants = mutants
        self._mutated = mutated
        self._caught: Counter[tuple[str, int]] = Counter()
        """How many mutants of a module each test has caught."""

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """A mutant has the doctest of its function, which is enough once."""
        items[:] = [item for item in items if "__mutmut_" not in item.nodeid]

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Learn what each test reaches, then judge.

        This process runs no test, so that every fork starts with empty caches.
        """
        if session.testsfailed:
            raise session.Interrupted("the tests can't be collected")
        # So that forks share the memory of all that is loaded.
        gc.freeze()
        reached = _answer(_reached, session.items)
        if not isinstance(reached, list):
            raise session.Interrupted(f"without any mutant a test fails: {reached}")
        tests: dict[str, list[tuple[float, int]]] = defaultdict(list)
        for number, (seconds, functions) in enumerate(reached):
            for function in functions:
                tests[function].append((seconds, number))
        # Whoever has no time for all of them interrupts.
        with suppress(KeyboardInterrupt):
            for mutant in self._mutants:
                self.verdicts[mutant] = self._judged(session.items, mutant, tests[_function(mutant)])
        return True

    def _judged(self, items: Sequence[pytest.Item], mutant: str, tests: Sequence[tuple[float, int]]) -> str:
        module = _module(mutant)
        # What caught much of the module runs first, what is quick, and what is named after it.
        order = sorted(tests, key=lambda test: test[0] / self._promise(module, test[1], items[test[1]].nodeid))
        verdict = _answer(_first_failure, items, mutant, order) if order else "unreached"
        if isinstance(verdict, int):
            self._caught[module, verdict] += 1
            verdict = "caught"
        print(f"{len(self.verdicts) + 1}/{len(self._mutants)} {mutant}: {verdict}", file=sys.__stderr__, flush=True)
        if verdict in _MISSED:
            print(_difference(mutant, self._mutated[module]), file=sys.__stderr__, flush=True)
        return str(verdict)

    def _promise(self, module: str, number: int, test: str) -> int:
        named = module.rpartition(".")[2] in test
        return (1 + self._caught[module, number]) * (_NAMED if named else 1)


def _answer(task: Callable[..., object], *arguments: object) -> object:
    """What a task answers in a fork of this process, or what became of the fork."""
    receiver, sender = _FORK.Pipe(duplex=False)
    process = _FORK.Process(target=_send_answer, args=(sender, task, *arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        return "never ended" if process.exitcode in {-signal.SIGPROF, -signal.SIGALRM} else "crashed"
    finally:
        receiver.close()
        process.join()


def _send_answer(sender: Connection, task: Callable[..., object], *arguments: object) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_BYTES, _BYTES))
    sender.send(task(*arguments))


def _reached(items: Sequence[pytest.Item]) -> list[tuple[float, list[str]]] | str:
    """How long each test takes and which functions it reaches, or the first test that fails."""
    reached = []
    for item, following in zip(items, [*items[1:], None], strict=True):
        VERSIONS.reached.clear()
        start = process_time()
        if not _passes(item, following):
            return item.nodeid
        reached.append((process_time() - start, sorted(VERSIONS.reached)))
    return reached


def _first_failure(items: Sequence[pytest.Item], mutant: str, order: Sequence[tuple[float, int]]) -> int | str:
    """The number of the first test that fails on a mutant."""
    VERSIONS.choose(mutant)
    left = _SECONDS
    for (seconds, number), following in zip(order, [*order[1:], None], strict=True):
        signal.setitimer(signal.ITIMER_PROF, 10 + 10 * seconds)
        signal.setitimer(signal.ITIMER_REAL, 300 + 100 * seconds)
        if not _passes(items[number], items[following[1]] if following else None):
            return number
        left -= seconds
        if left < 0:
            break
    return "survived"


def _passes(item: pytest.Item, following: pytest.Item | None) -> bool:
    return not any(report.failed for report in runtestprotocol(item, log=False, nextitem=following))


def _function(mutant: str) -> str:
    return mutant.partition("__mutmut_")[0]


def _module(mutant: str) -> str:
    return mutant.rpartition(".")[0]


def _is_in(module: str, package: str) -> bool:
    return f"{module}.".startswith(f"{package}.")


def _difference(mutant: str, mutated: MutatedFile) -> str:
    """What a mutant changes."""
    name = mutant.rpartition(".")[2]
    lines = mutated.code.splitlines()
    original, changed = (
        [line.replace(version, "") for line in lines[span.start - 1 : span.end]]
        for version in (f"{_function(name)}__mutmut_orig", name)
        for span in [mutated.line_span_by_function_name[version]]
    )
    return "\n".join(unified_diff(original, changed, fromfile=mutant, tofile=mutant, lineterm="", n=4))


def _figures(mutants: int, verdicts: Sequence[str]) -> Figures:
    counts = Counter(verdicts)
    caught = sum(count for verdict, count in counts.items() if verdict not in _MISSED)
    return Figures(mutants, counts.total(), caught, counts["unreached"], datetime.now(UTC).date().isoformat())


def _record(figures: dict[str, Figures]) -> float:
    """Write the figures down; the score is what it would be of all mutants, with a margin of 95 % confidence."""
    mutants = sum(module.mutants for module in figures.values())
    caught = sum(module.mutants * module.caught / module.judged for module in figures.values())
    score = round(100 * caught / mutants, 1)
    record = {
        "score": score,
        "margin": round(100 * 1.96 * math.sqrt(sum(module.variance for module in figures.values())) / mutants, 1),
        "mutants": mutants,
        "judged": sum(module.judged for module in figures.values()),
        "modules": {name: asdict(module) for name, module in sorted(figures.items())},
    }
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return score


def main() -> None:
    """Mutate, judge, record."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation")
    parser.add_argument("--sample", type=int, default=40, help="how many mutants of a module to judge at most")
    parser.add_argument("--mutants", nargs="+", default=[], help="judge only these, and record nothing")
    parser.add_argument("modules", nargs="*", default=_PACKAGES, help="modules, or packages with all theirs")
    options = parser.parse_args()
    paths = sorted(path.relative_to(ROOT) for package in _PACKAGES for path in (ROOT / package).rglob("*.py"))
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths]
    mutated = {*map(_module, options.mutants)} or options.modules
    finder = MutatingFinder([name for name in names if any(_is_in(name, part) for part in mutated)])
    sys.meta_path.insert(0, finder)
    trampoline.wrap_in_trampoline = VERSIONS.switched  # type: ignore[assignment]  # for the modules that are imported now
    for name in names:
        importlib.import_module(name)
    mutants = {
        name: [f"{name}.{mutant}" for mutant in loader.mutated.mutant_names]
        for name, loader in finder.loaders.items()
        if loader.mutated.mutant_names
    }
    sample = {name: random.Random(name).sample(every, len(every))[: options.sample] for name, every in mutants.items()}
    judge = Judge(
        # One of each module after the other, so that a part of them is a sample as well.
        options.mutants or [mutant for row in zip_longest(*sample.values()) for mutant in row if mutant],
        {name: loader.mutated for name, loader in finder.loaders.items()},
    )
    rooms = {max((room for room in _ROOMS if _is_in(name, room)), key=len) for name in mutants}
    tests = dict.fromkeys(path for room in sorted(rooms) for path in _ROOMS[room])
    if code := pytest.main([*tests, *_OPTIONS], plugins=[judge]):
        sys.exit(code)
    if options.mutants:
        return
    verdicts: dict[str, list[str]] = defaultdict(list)
    for mutant, verdict in judge.verdicts.items():
        verdicts[_module(mutant)].append(verdict)
    known = json.loads(RECORD.read_text(encoding="utf-8"))["modules"] if RECORD.exists() else {}
    figures = {name: Figures(**module) for name, module in known.items() if name in names}
    figures |= {name: _figures(len(mutants[name]), answers) for name, answers in verdicts.items()}
    score = _record(figures)
    print(f"{score} % of the mutants are caught; the goal is {GOAL} %.")  # noqa: T201 - its result
    sys.exit(score < GOAL)


if __name__ == "__main__":
    main()
