/** The graph of a dataflow as it runs: a box for each task with its figures, which people choose by mouse or by key. */

import { element, svg } from "../../dom.js";
import { counted } from "../../format.js";
import { smallButton } from "../../forms.js";
import { layered, routeOf } from "../../graph/layers.js";
import { neighbour } from "../../composer/places.js";
import { heightOf, streamFigure, taskFigure, WIDTH } from "./live-figures.js";
import { kindOf } from "./task-words.js";

const MARGIN = 12;
/** The number of tasks above which boxes have no line for type and load. */
const MANY = 24;
/** Labels are as large as the page's small text at scale 1; below the least of these they cannot be read well. */
const LEGIBLE = 0.85;
const SCALES = { least: 0.2, most: 2 };
const NOTCH = 1.25;
/** The most pixels that a pointer moves during a click. */
const STILL = 4;
const HELP = "Choose a task by a click, or by arrow keys and Enter. Drag or scroll to move; +, − and 0 zoom.";
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const ZOOMS = { "+": NOTCH, "=": NOTCH, "-": 1 / NOTCH };

/**
 * The graph. It is laid out anew when tasks or streams change; figures are put into the boxes that are there.
 * @param {function} choose called with the id of a task, and whether that was by key
 * @param {AbortSignal} signal ends it
 * @returns {{node, show, mark, chosen, focus}} `mark(id)` shows a task as chosen, or none for null
 */
export function liveGraph(choose, signal) {
  const frame = element("div", { class: "flow-frame" });
  const hint = element("p", { class: "faint flow-help", id: "flow-help" }, HELP);
  const state = { shape: "", boxes: new Map(), streams: [], places: new Map(), size: null, scale: 1, isZoomed: false, drawing: null, chosen: null };

  /** Show the tasks of a document, `{id, type, config}`, with what is known of each, by id. */
  function show({ tasks, streams = [] }, figures) {
    const shape = JSON.stringify([tasks.map((task) => [task.id, kindOf(task)]), streams]);
    if (shape !== state.shape) {
      state.shape = shape;
      draw(tasks, streams);
    }
    for (const { box, update } of state.boxes.values()) {
      update(figures.get(box.id) ?? null);
    }
    state.streams.forEach(({ from, update }) => update(figures.get(from)?.events_out_per_second));
  }

  function draw(tasks, streams) {
    const height = heightOf(tasks.length > MANY);
    const pairs = new Map(streams.map((stream) => [routeOf(stream.from, stream.to), stream]));
    const { at, routes, width, height: deep } = layered(
      tasks.map(({ id }) => ({ id, width: WIDTH, height })), [...pairs.values()].map(({ from, to }) => [from, to]));
    state.places = at;
    state.size = { width: width + 2 * MARGIN, height: deep + 2 * MARGIN, box: height };
    state.streams = [...pairs].filter(([route]) => routes.has(route)).map(([route, stream]) => streamFigure(stream, routes.get(route)));
    state.boxes = new Map(tasks.map((task) => [task.id, taskFigure(task, at.get(task.id), height, tasks.length > MANY)]));
    const focused = frame.contains(document.activeElement) ? document.activeElement.dataset.task : undefined;
    state.drawing = svg("svg", {
      role: "listbox", "aria-label": `${counted(tasks.length, "task")} and ${counted(pairs.size, "stream")} between them`,
      "aria-describedby": hint.id, viewBox: `${-MARGIN} ${-MARGIN} ${state.size.width} ${state.size.height}`,
    }, state.streams.map(({ node }) => node), [...state.boxes.values()].map(({ node }) => node));
    frame.replaceChildren(state.drawing);
    fill();
    mark(state.boxes.has(state.chosen) ? state.chosen : null);
    if (focused !== undefined) {
      focus(focused);
    }
  }

  function fitting() {
    const highest = Number.parseFloat(getComputedStyle(frame).maxHeight);
    // Less than a line is left for the rounding of sizes.
    return Math.min((frame.clientWidth - 2) / state.size.width, (highest - 4) / state.size.height);
  }

  /** Until somebody zooms, show as much as can be read. */
  function fill() {
    if (state.drawing !== null && !state.isZoomed) {
      scaled(Math.max(LEGIBLE, Math.min(1, fitting())));
    }
  }

  function zoom(scale) {
    state.isZoomed = true;
    scaled(scale);
  }

  /** Scale the drawing; the middle of what is seen stays. */
  function scaled(wanted) {
    const scale = Math.max(SCALES.least, Math.min(SCALES.most, wanted));
    const [across, down] = [frame.scrollLeft + frame.clientWidth / 2, frame.scrollTop + frame.clientHeight / 2];
    const grown = scale / state.scale;
    state.scale = scale;
    state.drawing.setAttribute("width", Math.round(state.size.width * scale));
    state.drawing.setAttribute("height", Math.round(state.size.height * scale));
    frame.scrollTo({ left: across * grown - frame.clientWidth / 2, top: down * grown - frame.clientHeight / 2, behavior: "instant" });
  }

  function mark(id) {
    state.chosen = id;
    const stop = id ?? [...state.boxes.keys()][0];
    for (const { box, node } of state.boxes.values()) {
      node.setAttribute("aria-selected", String(box.id === id));
      node.setAttribute("tabindex", box.id === stop ? "0" : "-1");
    }
    if (id !== null) {
      reveal(id);
    }
  }

  function focus(id) {
    const target = state.boxes.get(id)?.node;
    if (target === undefined) {
      return;
    }
    state.boxes.forEach(({ node: one }) => one.setAttribute("tabindex", one === target ? "0" : "-1"));
    target.focus({ preventScroll: true });
    reveal(id);
  }

  /** Scroll the frame, and nothing else, until a task is seen. */
  function reveal(id) {
    const { x, y } = state.places.get(id);
    const [left, top] = [(x + MARGIN) * state.scale, (y + MARGIN) * state.scale];
    const [wide, high] = [WIDTH * state.scale, state.size.box * state.scale];
    frame.scrollLeft = Math.min(left - MARGIN, Math.max(frame.scrollLeft, left + wide + MARGIN - frame.clientWidth));
    frame.scrollTop = Math.min(top - MARGIN, Math.max(frame.scrollTop, top + high + MARGIN - frame.clientHeight));
  }

  frame.addEventListener("click", function click(event) {
    const id = event.target.closest("[data-task]")?.dataset.task;
    if (id !== undefined) {
      choose(id, false);
    }
  });
  frame.addEventListener("keydown", function key(event) {
    const id = event.target.closest("[data-task]")?.dataset.task;
    if (id === undefined || event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    if (Object.hasOwn(ARROWS, event.key)) {
      focus(neighbour(id, ARROWS[event.key], state.places));
    } else if (event.key === "Enter" || event.key === " ") {
      choose(id, true);
    } else if (Object.hasOwn(ZOOMS, event.key)) {
      zoom(state.scale * ZOOMS[event.key]);
      reveal(id);
    } else if (event.key === "0") {
      zoom(fitting());
    } else {
      return;
    }
    event.preventDefault();
  });
  listenToDrag(frame);
  const resizing = new ResizeObserver(function resized() {
    fill();
    if (state.chosen !== null) {
      reveal(state.chosen);
    }
  });
  resizing.observe(frame);
  signal.addEventListener("abort", () => resizing.disconnect());

  const node = element("div", {}, frame,
    element("div", { class: "toolbar flow-tools" },
      smallButton("+", () => zoom(state.scale * NOTCH), "Closer"),
      smallButton("−", () => zoom(state.scale / NOTCH), "Farther"),
      smallButton("Show everything", () => zoom(fitting())),
      hint));
  return { node, show, mark, focus, chosen: () => state.chosen };
}

/** Move what is seen of a frame by dragging a mouse; fingers scroll by themselves. */
function listenToDrag(frame) {
  let held = null;
  frame.addEventListener("pointerdown", function down(event) {
    if (event.pointerType === "mouse" && event.button === 0) {
      held = { x: event.clientX, y: event.clientY, left: frame.scrollLeft, top: frame.scrollTop, moved: false };
    }
  });
  frame.addEventListener("pointermove", function move(event) {
    if (held === null) {
      return;
    }
    const [across, down] = [event.clientX - held.x, event.clientY - held.y];
    if (!held.moved && Math.hypot(across, down) > STILL) {
      held.moved = true;
      // The click at the end is then of the frame, and chooses nothing.
      frame.setPointerCapture(event.pointerId);
    }
    if (held.moved) {
      [frame.scrollLeft, frame.scrollTop] = [held.left - across, held.top - down];
    }
  });
  for (const end of ["pointerup", "pointercancel"]) {
    frame.addEventListener(end, () => (held = null));
  }
}
