/** The running graph, or a part of it, on a canvas that can be moved, enlarged and chosen from. */

import { element } from "../dom.js";
import { colouring } from "./colours.js";
import { paint } from "./painting.js";
import { pointing } from "./pointing.js";
import { byJob, sceneOf, shapeOf } from "./scene.js";
import { around, centred, fitted, holds, middle, panned, pointAt, SCALES, zoomed } from "./view.js";
import { counted } from "./words.js";

const WORDS = "Drag or arrow keys move it; wheel, two fingers, + and − enlarge it or make it smaller; 0 shows all.";
const TOGGLES = " A click or Enter expands a job; Enter collapses it again.";
/** How large what is brought into view is at least. */
const LEGIBLE = 0.8;

/**
 * A board. It is drawn when it is shown something, and again whenever that or how it is looked at changes.
 * @param {object} options `label` names it; `low` has it take less of the page; `onChoose(chosen)` hears of
 *   `{instance}`, `{job}` or null; `onToggle(job)` hears that a job is to be opened or collapsed; `signal` ends it
 * @returns {{node, show, choose, reveal, fit, zoom}}
 */
export function board({ label, low = false, onChoose = nothing, onToggle = nothing, signal }) {
  const looks = low ? "board low" : "board";
  const canvas = element("canvas", { class: looks, tabindex: "0", role: "application", "aria-label": label });
  const told = element("p", { class: "faint board-told" });
  const hint = element("p", { class: "faint", id: `${label.replaceAll(/\W+/g, "-")}-keys` },
    WORDS, onToggle === nothing ? "" : TOGGLES);
  canvas.setAttribute("aria-describedby", hint.id);
  const pen = canvas.getContext("2d", { alpha: false });
  const kept = new Map();
  const state = { shape: null, scene: null, view: null, size: { width: 1, height: 1 }, chosen: null, asked: false };
  const look = { tasks: new Map(), jobs: new Map(), marked: null, chosen: null, colours: null, theme: themeOf(canvas) };

  function show({ tasks, jobs = [], open, way = "job", marked = null }) {
    look.tasks = new Map(tasks.map((task) => [task.instance, task]));
    look.jobs = new Map(jobs.map((job) => [job.job, job]));
    look.marked = marked;
    look.colours = colouring(way, byJob(tasks));
    const shape = shapeOf(tasks, open);
    if (shape !== state.shape) {
      const before = state.scene;
      state.scene = sceneOf(tasks, open, kept);
      state.shape = shape;
      keepInPlace(before);
    }
    draw();
    return look.colours.legend;
  }

  /** After a new layout, what was chosen or else in the middle stays where it was on the screen. */
  function keepInPlace(before) {
    if (before === null || before.boxes.size === 0 || state.view === null) {
      state.view = state.size.width > 1 ? fitted(whole(state.scene), state.size) : null;
      return;
    }
    const centre = pointAt(state.view, { x: state.size.width / 2, y: state.size.height / 2 });
    const near = state.chosen ?? nearest(before, centre);
    const [was, is] = [placeOf(before, near), placeOf(state.scene, near)];
    if (was && is) {
      const { scale } = state.view;
      state.view = panned(state.view, (was.x - is.x) * scale, (was.y - is.y) * scale);
    }
  }

  function choose(chosen, { reveal = false } = {}) {
    state.chosen = chosen;
    look.chosen = chosen;
    const place = reveal && chosen ? placeOf(state.scene, chosen) : null;
    if (place) {
      state.view = centred(middle(place), Math.min(SCALES.most, Math.max(LEGIBLE, state.view?.scale ?? 1)), state.size);
    }
    draw();
    onChoose(chosen);
  }

  /** Bring tasks into view, all of them at once. */
  function reveal(instances) {
    const places = [...instances].map((instance) => state.scene?.nodes.get(instance)).filter(Boolean);
    if (places.length > 0 && state.view !== null) {
      state.view = fitted(around(places), state.size);
      draw();
    }
  }

  function chooseAt(at) {
    const point = pointAt(state.view, at);
    const node = [...state.scene.nodes.values()].find((each) => holds(each, point));
    const box = [...state.scene.boxes.values()].find((each) => holds(each, point));
    if (!node && box && !box.open) {
      choose({ job: box.job });
      onToggle(box.job);
      return;
    }
    choose(node ? { instance: node.instance } : box ? { job: box.job } : null);
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
    fit: () => moved(() => fitted(whole(state.scene), state.size)),
    choose: (at) => state.scene && state.view && chooseAt(at),
    toggle: () => state.chosen && onToggle(state.chosen.job ?? look.tasks.get(state.chosen.instance)?.job),
    clear: () => choose(null),
  };
  pointing(canvas, on);

  function draw() {
    if (!state.asked) {
      state.asked = true;
      requestAnimationFrame(drawn);
    }
  }

  function drawn() {
    state.asked = false;
    if (signal.aborted || state.scene === null || state.size.width <= 1) {
      return;
    }
    state.view ??= fitted(whole(state.scene), state.size);
    const ratio = window.devicePixelRatio || 1;
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    const painted = paint(pen, state.scene, state.view, state.size, look);
    const words =
      `In view: ${counted(painted.tasks, "task")} and ${counted(painted.streams, "stream")}` +
      ` in ${counted(painted.jobs, "job")}, of ${counted(look.tasks.size, "task")} in all.`;
    if (told.textContent !== words) {
      told.textContent = words;
    }
  }

  function resized() {
    const { clientWidth: width, clientHeight: height } = canvas;
    const ratio = window.devicePixelRatio || 1;
    Object.assign(canvas, { width: Math.round(width * ratio), height: Math.round(height * ratio) });
    state.size = { width, height };
    // At once: a canvas that is resized is empty.
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
  const node = element("div", { class: "board-frame" }, canvas, told, hint);
  return { node, show, choose, reveal, fit: on.fit, zoom: on.zoom };
}

function whole(scene) {
  return { x: 0, y: 0, width: scene.width, height: scene.height };
}

/** Where something is: a task, or its job's box where that is collapsed. */
function placeOf(scene, { instance, job }) {
  return instance === undefined ? scene.boxes.get(job) : scene.nodes.get(instance);
}

function nearest(scene, point) {
  function distance(box) {
    const { x, y } = middle(box);
    return Math.hypot(x - point.x, y - point.y);
  }
  const things = scene.nodes.size > 0 ? [...scene.nodes.values()] : [...scene.boxes.values()];
  return things.reduce((best, each) => (distance(each) < distance(best) ? each : best));
}

/** The page's colours, which a canvas does not inherit. */
function themeOf(canvas) {
  const style = getComputedStyle(document.documentElement);
  const names = ["ground", "surface", "text", "faint", "line", "accent", "bad"];
  const colours = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  return { ...colours, font: getComputedStyle(canvas.ownerDocument.body).fontFamily || "sans-serif" };
}

function nothing() {
  // Nobody listens.
}
