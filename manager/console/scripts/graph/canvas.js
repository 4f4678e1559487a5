/** The canvas of the running graph, or of a part of it, with pan, zoom and selection. */

import { element } from "../dom.js";
import { counted } from "../format.js";
import { colouring } from "./colours.js";
import { draw as drawGraph, LEVELS } from "./drawing.js";
import { listenToInput } from "./pan-zoom.js";
import { byJob, layoutOf, shapeOf } from "./layout.js";
import { around, centred, fitted, holds, middle, panned, pointAt, SCALES, zoomed } from "./view.js";

const HELP = "Drag or use the arrow keys to move; scroll, pinch, + and − to zoom; Enter to see the selected job from nearby;"
  + " 0 to show everything. The nearer, the more is written on it.";
/** The least scale of what is brought into view. */
const LEGIBLE = 0.8;

/**
 * A canvas. It is drawn again whenever its graph or its view changes.
 * @param {object} options `label` names it; `low` makes it less high; `onChoose(chosen)` is called with `{instance}`,
 *   `{job}` or null; `signal` ends it
 * @returns {{node, show, choose, reveal, enter, fit, zoom}}
 */
export function graphCanvas({ label, low = false, onChoose = nothing, signal }) {
  const looks = low ? "canvas low" : "canvas";
  const canvas = element("canvas", { class: looks, tabindex: "0", role: "application", "aria-label": label });
  const summary = element("p", { class: "faint canvas-summary" });
  const hint = element("p", { class: "faint", id: `${label.replaceAll(/\W+/g, "-")}-keys` },
    HELP);
  canvas.setAttribute("aria-describedby", hint.id);
  const pen = canvas.getContext("2d", { alpha: false });
  const kept = new Map();
  const state = { shape: null, layout: null, view: null, size: { width: 1, height: 1 }, chosen: null, asked: false };
  const look = { tasks: new Map(), jobs: new Map(), marked: null, chosen: null, colours: null, theme: themeOf(canvas) };

  function show({ tasks, jobs = [], way = "job", marked = null }) {
    look.tasks = new Map(tasks.map((task) => [task.instance, task]));
    look.jobs = new Map(jobs.map((job) => [job.job, job]));
    look.marked = marked;
    look.colours = colouring(way, byJob(tasks));
    const shape = shapeOf(tasks);
    if (shape !== state.shape) {
      const before = state.layout;
      state.layout = layoutOf(tasks, kept);
      state.shape = shape;
      keepInPlace(before);
    }
    draw();
    return look.colours.legend;
  }

  /** After a new layout, the selection, or else the centre of the view, stays where it was on the screen. */
  function keepInPlace(before) {
    if (before === null || before.boxes.size === 0 || state.view === null) {
      state.view = state.size.width > 1 ? fitted(whole(state.layout), state.size) : null;
      return;
    }
    const centre = pointAt(state.view, { x: state.size.width / 2, y: state.size.height / 2 });
    const near = state.chosen ?? nearest(before, centre);
    const [was, is] = [placeOf(before, near), placeOf(state.layout, near)];
    if (was && is) {
      const { scale } = state.view;
      state.view = panned(state.view, (was.x - is.x) * scale, (was.y - is.y) * scale);
    }
  }

  function choose(chosen, { reveal = false } = {}) {
    state.chosen = chosen;
    look.chosen = chosen;
    const place = reveal && chosen ? placeOf(state.layout, chosen) : null;
    if (place) {
      state.view = centred(middle(place), Math.min(SCALES.most, Math.max(LEGIBLE, state.view?.scale ?? 1)), state.size);
    }
    draw();
    onChoose(chosen);
  }

  /** Bring tasks into view, all together. */
  function reveal(instances) {
    const places = [...instances].map((instance) => state.layout?.nodes.get(instance)).filter(Boolean);
    if (places.length > 0 && state.view !== null) {
      state.view = fitted(around(places), state.size);
      draw();
    }
  }

  function chooseAt(at) {
    const point = pointAt(state.view, at);
    const isNear = state.view.scale >= LEVELS.tasks;
    const node = isNear && [...state.layout.nodes.values()].find((each) => holds(each, point));
    const box = [...state.layout.boxes.values()].find((each) => holds(each, point));
    choose(node ? { instance: node.instance } : box ? { job: box.job } : null);
  }

  /** Show the selected job, or that of the selected task, so near that its tasks are drawn. */
  function enter() {
    const job = state.chosen?.job ?? look.tasks.get(state.chosen?.instance)?.job;
    const box = state.layout?.boxes.get(job);
    if (box !== undefined && state.view !== null) {
      const view = fitted(box, state.size);
      state.view = view.scale < LEVELS.tasks ? zoomed(view, LEVELS.tasks / view.scale, middle({ x: 0, y: 0, ...state.size })) : view;
      draw();
    }
  }

  function moved(view) {
    if (state.view !== null) {
      state.view = view(state.view);
      draw();
    }
  }

  const on = {
    pan: (across, down) => moved((view) => panned(view, across, down)),
    zoom: (factor, at) => moved((view) => zoomed(view, factor, at ?? middle({ x: 0, y: 0, ...state.size }))),
    fit: () => moved(() => fitted(whole(state.layout), state.size)),
    choose: (at) => state.layout && state.view && chooseAt(at),
    enter,
    clear: () => choose(null),
  };
  listenToInput(canvas, on);

  function draw() {
    if (!state.asked) {
      state.asked = true;
      requestAnimationFrame(drawn);
    }
  }

  function drawn() {
    state.asked = false;
    if (signal.aborted || state.layout === null || state.size.width <= 1) {
      return;
    }
    state.view ??= fitted(whole(state.layout), state.size);
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const painted = drawGraph(pen, state.layout, state.view, state.size, look);
    const parts = state.view.scale < LEVELS.tasks ? "" : `${counted(painted.tasks, "task")} and `;
    const words = `In view: ${parts}${counted(painted.streams, "stream")}${parts ? " in" : " between"}` +
      ` ${counted(painted.jobs, "job")}, of ${counted(look.tasks.size, "task")} in all.`;
    if (summary.textContent !== words) {
      summary.textContent = words;
    }
  }

  function resized() {
    const { clientWidth: width, clientHeight: height } = canvas;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    state.size = { width, height };
    // At once, because a resized canvas is empty.
    drawn();
  }

  function themed() {
    look.theme = themeOf(canvas);
    draw();
  }

  const resizing = new ResizeObserver(resized);
  resizing.observe(canvas);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", themed, { signal });
  signal.addEventListener("abort", () => resizing.disconnect());
  const node = element("div", { class: "canvas-frame" }, canvas, summary, hint);
  return { node, show, choose, reveal, enter, fit: on.fit, zoom: on.zoom };
}

function whole(layout) {
  return { x: 0, y: 0, width: layout.width, height: layout.height };
}

/** The place of a task or of a job's box. */
function placeOf(layout, { instance, job }) {
  return instance === undefined ? layout.boxes.get(job) : layout.nodes.get(instance);
}

function nearest(layout, point) {
  function distance(box) {
    const { x, y } = middle(box);
    return Math.hypot(x - point.x, y - point.y);
  }
  const things = layout.nodes.size > 0 ? [...layout.nodes.values()] : [...layout.boxes.values()];
  return things.reduce((best, each) => (distance(each) < distance(best) ? each : best));
}

/** The colours of the page, which a canvas does not inherit. */
function themeOf(canvas) {
  const style = getComputedStyle(document.documentElement);
  const names = ["ground", "surface", "text", "faint", "line", "accent", "bad"];
  const colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return { ...colours, font: getComputedStyle(canvas.ownerDocument.body).fontFamily || "sans-serif" };
}

function nothing() {
  // No listener.
}
