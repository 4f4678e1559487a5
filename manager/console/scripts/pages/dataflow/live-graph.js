/** The graph of a dataflow as it runs: a box for each task with its figures, which people choose by mouse or by key. */

import { element, svg } from "../../dom.js";
import { layered, routeOf } from "../../graph/layers.js";
import { neighbour } from "../../composer/places.js";
import { counted } from "../../plurals.js";
import { kindOf, loadOf, ratesOf, remarksOf } from "./task-words.js";

const WIDTH = 224;
const MARGIN = 12;
const LINE = 18;
/** The number of tasks above which boxes have no line for type and load. */
const MANY = 24;
/** The characters that fit into a line, approximately. */
const FITS = 31;
/** Labels are as large as the page's small text at scale 1; below the least of these they cannot be read well. */
const LEGIBLE = 0.9;
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
 * @returns {{node, show, mark, chosen, focus}} `mark(id)` shows a task as chosen, or none for null
 */
export function liveGraph(choose) {
  const frame = element("div", { class: "flow-frame" });
  const hint = element("p", { class: "faint flow-help", id: "flow-help" }, HELP);
  const state = { shape: "", boxes: new Map(), streams: [], places: new Map(), size: null, scale: 1, drawing: null, chosen: null };

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
    const height = tasks.length > MANY ? 3 * LINE + 14 : 5 * LINE + 14;
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
    scaled(Math.max(LEGIBLE, Math.min(1, fitting())));
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
      scaled(state.scale * ZOOMS[event.key]);
      reveal(id);
    } else if (event.key === "0") {
      scaled(fitting());
    } else {
      return;
    }
    event.preventDefault();
  });
  listenToDrag(frame);

  function button(words, label, act) {
    return element("button", { class: "button small", type: "button", "aria-label": label, on: { click: act } }, words);
  }

  const node = element("div", { class: "flow-graph" }, frame,
    element("div", { class: "toolbar flow-tools" },
      button("+", "Closer", () => scaled(state.scale * NOTCH)),
      button("−", "Farther", () => scaled(state.scale / NOTCH)),
      button("Show everything", "Show everything", () => scaled(fitting())),
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

/** A task; `update(figures)` puts new ones into it, null where none are known. */
function taskFigure(task, { x, y }, height, isOfMany) {
  const title = svg("title", {});
  const lines = new Map();
  function line(name, text = "") {
    const at = y + 6 + LINE * (lines.size + 0.75);
    const written = svg("text", { x: x + 12, y: at, class: `flow-${name}` }, text);
    lines.set(name, written);
    return written;
  }
  const content = [
    line("id", shortened(task.id)), isOfMany ? null : line("kind", shortened(kindOf(task))),
    line("rates"), isOfMany ? null : line("load"), line("remarks"),
  ];
  const node = svg("g", { role: "option", tabindex: "-1", "aria-selected": "false", dataset: { task: task.id } },
    title,
    // The second sheet below that of a task that others use, too.
    svg("rect", { class: "flow-below", x: x + 5, y: y + 5, width: WIDTH, height, rx: 6 }),
    svg("rect", { class: "flow-box", x, y, width: WIDTH, height, rx: 6 }),
    svg("g", { "aria-hidden": "true" }, content));

  function update(figures) {
    const parts = figures === null ? { rates: "–", load: "", remarks: "" } : {
      rates: ratesOf(figures, task.type), load: loadOf(figures), remarks: remarksOf(figures),
    };
    for (const [name, text] of Object.entries(parts)) {
      if (lines.has(name)) {
        lines.get(name).textContent = shortened(text);
      }
    }
    const words = [`${task.id}, ${kindOf(task)}`, ...Object.values(parts), figures?.reason].filter(Boolean).join(", ");
    title.textContent = words;
    node.setAttribute("aria-label", words);
    node.setAttribute("class", `flow-task ${figures?.state ?? "unknown"}${figures?.others > 0 ? " shared" : ""}`);
  }

  return { box: task, node, update };
}

/** A stream with its head; `update(rate)` shows whether events flow. */
function streamFigure({ from, to, from_port: fromPort, to_port: toPort }, points) {
  const [x, y] = points.at(-1);
  const ports = fromPort || toPort ? ` (${[fromPort, toPort].filter(Boolean).join(" → ")})` : "";
  const title = svg("title", {});
  const node = svg("g", { class: "flow-stream" }, title,
    svg("polyline", { points: points.map((point) => point.join(",")).join(" ") }),
    svg("path", { d: `M ${x} ${y} l -10 -5 v 10 z` }));

  function update(rate) {
    node.classList.toggle("flows", rate > 0);
    title.textContent = `from ${from} to ${to}${ports}${rate > 0 ? ", flowing" : ""}`;
  }

  return { from, node, update };
}

function shortened(text) {
  const characters = [...text];
  return characters.length > FITS ? `${characters.slice(0, FITS - 1).join("")}…` : text;
}
