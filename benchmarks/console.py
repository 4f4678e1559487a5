"""The console: how smoothly the running graph is moved and enlarged in a real browser, and how long its layout takes.

    python -m benchmarks.console [--quick]

A page of the console shows 50, 1,000 and 5,000 running tasks. It is enlarged and made smaller, then
moved about, and the time from each frame to the next is noted: a browser shows 60 in a second at most, so 16.7 ms is
the best. Needs Chromium, which here has no graphics card, as `--disable-gpu` says. Prints a line per measurement; the
last is one JSON object.
"""

import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect, sync_playwright

from benchmarks.instruments import report
from manager.rest.app import console_router
from tests.console.contents import answer_with, jobs_of, running
from tests.manager.rest.socket_server import serving

_SIZES = (50, 1_000, 5_000)
FRAMES = 300
LAYOUTS = 7
_PATIENCE = 60_000.0
"""Milliseconds within which the page has to be there."""
_MOVE = """
async ({ frames, events }) => {
  const canvas = document.querySelector("canvas.canvas");
  const box = canvas.getBoundingClientRect();
  const middle = { clientX: box.x + box.width / 2, clientY: box.y + box.height / 2 };
  const frame = () => new Promise(requestAnimationFrame);
  const deltas = [];
  let before = await frame();
  for (let at = 0; at < frames; at += 1) {
    const { kind, ...published } = events[at % events.length];
    const made = new (kind === "wheel" ? WheelEvent : KeyboardEvent)(kind, { ...published, ...middle });
    canvas.dispatchEvent(made);
    const now = await frame();
    deltas.push(now - before);
    before = now;
  }
  return deltas;
}
"""
_LAYOUT = """
async ({ tasks, times }) => {
  const { layoutOf } = await import("/console/scripts/graph/layout.js");
  const taken = [];
  for (let at = 0; at < times; at += 1) {
    const begun = performance.now();
    layoutOf(tasks);
    taken.push(performance.now() - begun);
  }
  return taken;
}
"""
_ZOOM = [{"kind": "wheel", "deltaY": -40, "cancelable": True}] * 45 + [
    {"kind": "wheel", "deltaY": 40, "cancelable": True}
] * 45
_PAN = [
    {"kind": "keydown", "key": key} for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown") for _ in range(6)
]


def main(*, quick: bool) -> None:
    """Measure everything."""
    app = FastAPI()
    app.include_router(console_router)
    frames = FRAMES // 5 if quick else FRAMES
    with serving(app) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox", "--disable-gpu"])
        tasks = {str(size): report(f"{size} tasks", measured(browser, url, size, frames)) for size in _SIZES}
        version = browser.version
        browser.close()
    print(json.dumps({"benchmark": "console", "chromium": version, "frames": frames, "tasks": tasks}))


def measured(browser: Browser, url: str, size: int, frames: int) -> dict[str, Any]:
    """Frames and layouts with so many tasks."""
    page = browser.new_page(base_url=url, viewport={"width": 1280, "height": 900})
    page.set_default_timeout(_PATIENCE)
    tasks = running(size)
    answer_with(page, {"/v1/running/tasks": tasks, "/v1/jobs": jobs_of(tasks), "/v1/dataflows": []})
    session = {"kind": "operator", "tenant": None, "until": "2100-01-01T00:00:00Z"}
    page.route("**/v1/session", lambda route: route.fulfill(json=session))
    page.goto("/#/graph")
    expect(page.locator(".canvas-summary")).to_contain_text(f"of {size:,} tasks in all", timeout=_PATIENCE)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    layout = page.evaluate(_LAYOUT, {"tasks": tasks, "times": LAYOUTS})
    whole = {"pan": percentiles(moved(page, frames, _PAN)), "zoom": percentiles(moved(page, frames, _ZOOM))}
    page.close()
    return {"first_paint_ms": round(paint), "layout_ms": round(statistics.median(layout), 1), **whole}


def moved(page: Page, frames: int, events: Sequence[dict[str, Any]]) -> list[float]:
    """Milliseconds from frame to frame while that is done, one of it a frame."""
    page.get_by_role("button", name="Show all").click()
    deltas: list[float] = page.evaluate(_MOVE, {"frames": frames, "events": list(events)})
    return deltas


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """The median, and what all but one in twenty are at most."""
    return {
        "p50_ms": round(statistics.median(values), 1),
        "p95_ms": round(statistics.quantiles(values, n=20, method="inclusive")[18], 1),
    }


def chromium() -> str:
    """Where the browser is."""
    path = shutil.which("chromium")
    if path is None:
        raise SystemExit("chromium is not installed; on Debian, apt-get install chromium")
    return path


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
