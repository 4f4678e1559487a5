"""The demo: dataflows of two tenants share what they have in common; one leaves, and the others notice nothing."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NoReturn

import typer
from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.status import Status

from manager.answers import SubmitAnswer
from manager.commands.asking import AsJson
from manager.commands.exit_codes import ExitCode
from manager.commands.showing import Shown
from workloads.demo.cores import Measured, measure
from workloads.demo.outcome import Outcome
from workloads.demo.showing import outputs_table, show_cores, show_progress, show_removal, show_submission
from workloads.demo.stage import Stage
from workloads.outputs import Outputs, listening
from workloads.service import RunFailed, served

SUBMISSIONS = (("school", "school"), ("city", "health"), ("city", "planning"))
"""Which tenant submits which example, in this order; the first is removed again."""
RATE = 1_000.0
"""How many events of each source are replayed in a second."""
WATCHING = 6.0
"""Seconds for which the outputs are shown before one dataflow leaves."""
SETTLING = 3.0
"""Seconds from the first events to the measurement."""
MEASURING = 9.5
"""Seconds that are measured at least; the host tells its CPU every 5 s."""
_WIDTH = 120
"""How wide the demo writes where no screen says so."""


def demo(*, as_json: AsJson = False) -> None:
    """Show Braid at work: serve, run three dataflows of two tenants that share parts, remove one, count the cores.

    With --json, what people read goes to standard error.
    """
    out = Console(highlight=False, stderr=as_json)
    if not out.is_terminal:
        out.width = _WIDTH
    begun, outcome = time.monotonic(), Outcome()
    with out.status("") as status:
        try:
            _play(out, status, outcome)
        except KeyboardInterrupt:
            why = "Interrupted: everything was stopped, and no process is left."
            out.print(why)
            _end(ExitCode.INTERRUPTED, "interrupted", why, as_json=as_json)
        except RunFailed as error:
            out.print(f"[red]{escape(str(error))}[/]", soft_wrap=True)
            _end(ExitCode.FAILED, "demo-failed", str(error), as_json=as_json)
    outcome.seconds = time.monotonic() - begun
    out.print(f"Everything has stopped, and no process is left. The demo took {outcome.seconds:.0f} s.")
    if as_json:
        Shown(data=outcome.data(), text="").print(as_json=True)


def _end(code: ExitCode, name: str, why: str, *, as_json: bool) -> NoReturn:
    if as_json:
        Shown(data={"problem": {"code": name, "detail": why}}, text="").print(as_json=True)
    raise typer.Exit(code) from None


def _play(out: Console, status: Status, outcome: Outcome) -> None:
    begun = time.monotonic()
    with served(lambda what: status.update(escape(what))) as service, ExitStack() as held:
        out.rule("A service by one command: braid serve", align="left")
        outcome.url, outcome.ready_after = service.url, time.monotonic() - begun
        out.print(
            f"Ready at {service.url} after {outcome.ready_after:.0f} s: a broker, SQLite, a host with Spark, and "
            "REST, all on this machine."
        )
        outputs = Outputs()
        stage = Stage(service, held.enter_context(service.operator()), outputs)
        held.callback(stage.close)
        credentials = stage.admit(dict.fromkeys(tenant for tenant, _ in SUBMISSIONS))
        out.print(held.enter_context(listening(outputs, credentials, service.root)))
        names = stage.register_sources(RATE)
        out.print(
            f"The sources {' and '.join(names)} replay bundled traces, {RATE:,.0f} events a second each. "
            "To each dataflow the demo adds a task that computes pi, to stand for a model that costs something.\n"
        )
        outcome.with_sharing = _share(out, status, stage, outcome)
        outcome.without_sharing = _share_nothing(out, status, stage)
        stage.check_numbers()
        show_cores(out, outcome.with_sharing, outcome.without_sharing)


def _share(out: Console, status: Status, stage: Stage, outcome: Outcome) -> Measured:
    """The first phase: what dataflows have in common runs once, and one that leaves and returns disturbs no other."""
    flows = [_submit(out, stage, outcome, tenant, example) for tenant, example in SUBMISSIONS]
    with _live(out, status, stage, flows):
        time.sleep(WATCHING)
    first, *others = flows
    before = stage.outputs.begin_waits()
    removal = stage.remove(first)
    sums = stage.sums()
    show_removal(out, first, removal, sums)
    outcome.remove(first, removal, sums)
    status.update("waiting for the others' events")
    outcome.others = stage.await_progress(first, others, before)
    show_progress(out, outcome.others)
    again = [_submit(out, stage, outcome, *SUBMISSIONS[0]), *others]
    with _live(out, status, stage, again):
        return _measure(stage, again)


def _share_nothing(out: Console, status: Status, stage: Stage) -> Measured:
    """The second phase: the same dataflows with every task fresh, for comparison."""
    status.update("removing all, and waiting for the job to stop")
    stage.remove_all()
    out.rule("The same three without sharing: every task is submitted as fresh", align="left")
    flows = [stage.submit(tenant, example, alone=True) for tenant, example in SUBMISSIONS]
    if any(flow.reused for flow in flows):
        raise RunFailed("a task was reused although every task was submitted as fresh")
    with _live(out, status, stage, flows):
        return _measure(stage, flows)


def _submit(out: Console, stage: Stage, outcome: Outcome, tenant: str, example: str) -> SubmitAnswer:
    flow = stage.submit(tenant, example)
    sums = stage.sums()
    show_submission(out, flow, sums)
    outcome.submit(flow, sums)
    return flow


def _measure(stage: Stage, flows: list[SubmitAnswer]) -> Measured:
    time.sleep(SETTLING)
    return measure(stage.operator, MEASURING, lambda: stage.events(flows), stage.sums())


@contextmanager
def _live(out: Console, status: Status, stage: Stage, flows: list[SubmitAnswer]) -> Iterator[None]:
    """Show what comes of dataflows, from the first events of each until the context ends."""
    status.update("waiting for the job to take up the plan, and for events")
    stage.await_outputs(flows)
    status.stop()
    out.print("Outputs, live over MQTT:")
    try:
        with Live(console=out, get_renderable=lambda: outputs_table(flows, stage.outputs)):
            yield
    finally:
        out.print()
        status.start()
