/** The canvas: the drawing of what is composed, which looks like the composition and reports what people do on it. */

import { element, replace, svg } from "../dom.js";
import { around, fitted, middle, panned, pointAt, zoomed } from "../graph/view.js";
import { endsOf } from "./connecting.js";
import { pendingFigure, streamFigure, taskFigure } from "./figures.js";
import { portAt, WIDTH } from "./places.js";
import { listenToPointer } from "./pointer.js";

const MARGIN = 60;
const NOTCH = 1.25;
const HELP = "Arrow keys go from task to task; Enter configures, A adds, C connects, Delete removes. All keys are listed below.";

/**
 * A canvas.
 * @param {object} on `choose(id, more)`, `chooseStream(at)`, `clear()`, `configure(id)`, `move(ids, across, down)`,
 *   `begin(id, port)`, `end(id, port)` and `cancel()` of a stream; `key(event)`
 * @returns {{node, hint, show, focus, enter, reveal, fit, closer, pointOf, reset, forget}}
 */
export function composerCanvas({ on, signal }) {
  const hint = element("p", { class: "faint", id: "canvas-help" }, HELP);
  const [lines, tasks, above] = [svg("g", { role: "none" }), svg("g", { role: "none" }), svg("g", { role: "none" })];
  const whole = svg("g", { role: "none" }, lines, tasks, above);
  const drawing = svg("svg", {
    class: "composer-canvas", role: "listbox", "aria-label": "Tasks on the canvas", "aria-multiselectable": "true",
    "aria-describedby": hint.id,
  }, whole);
  const empty = element("p", { class: "composer-empty" }, "Drag a task type here, choose one from the list, or press A.");
  const node = element("div", { class: "composer-frame" }, drawing, empty);
  let view = null;
  let model = null;
  let [shift, pointer] = [null, null];
  const figures = { streams: new Map(), tasks: new Map() };

  function sizeOf() {
    return { width: Math.max(1, drawing.clientWidth), height: Math.max(1, drawing.clientHeight) };
  }

  function boxOf(id) {
    const { x, y } = model.places.get(id);
    const moved = shift !== null && shift.ids.has(id) ? shift : { across: 0, down: 0 };
    return { id, x: x + moved.across, y: y + moved.down, width: WIDTH, height: model.heights.get(id) };
  }

  /** Draw; `model` has the composition's parts, `states`, `wrong` streams, and the stream that is begun with its `refusals`. */
  function show(given = model) {
    const wasEmpty = model === null || model.document.tasks.length === 0;
    model = given;
    const focused = tasks.contains(document.activeElement) ? document.activeElement.dataset.task : null;
    const ids = model.document.tasks.map((task) => task.id);
    const stop = [...model.selection].at(-1) ?? ids[0];
    view = view === null || (wasEmpty && ids.length > 1) ? framed() : view;
    empty.hidden = ids.length > 0;
    drawing.setAttribute("tabindex", ids.length > 0 ? "-1" : "0");
    renew(lines, figures.streams, model.document.streams.map(function line(stream) {
      const [from, to] = [model.ports.get(stream.from)?.outputs, model.ports.get(stream.to)?.inputs];
      const ends = endsOf(stream, model.ports);
      const begin = portAt(boxOf(stream.from), from, ends.left, true);
      const end = portAt(boxOf(stream.to), to, ends.right, false);
      const look = { isSelected: stream.at === model.stream, isWrong: model.wrong.has(stream.at) };
      return { id: stream.at, key: [stream, begin, end, look], make: () => streamFigure(stream, begin, end, look) };
    }));
    renew(tasks, figures.tasks, model.document.tasks.map(function figure(task) {
      const refusals = model.begun === null ? null : model.begun.refusals.get(task.id) ?? new Map();
      const look = {
        box: boxOf(task.id), ports: model.ports.get(task.id), state: model.states.get(task.id), refusals,
        isSelected: model.selection.has(task.id), isFocusable: task.id === stop,
      };
      return { id: task.id, key: [task.type, look, refusals && [...refusals]], make: () => taskFigure(task, look) };
    }));
    showPending();
    place();
    if (focused !== null && !tasks.contains(document.activeElement)) {
      (figureOf(focused) ?? figureOf(stop) ?? drawing).focus({ preventScroll: true });
    }
  }

  function showPending() {
    const { begun } = model;
    const from = begun === null ? null : portAt(boxOf(begun.from), model.ports.get(begun.from)?.outputs, begun.from_port, true);
    replace(above, from !== null && pointer !== null ? pendingFigure(from, [pointer.x, pointer.y]) : null);
  }

  function place() {
    whole.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  }

  function framed() {
    const boxes = model.document.tasks.map((task) => boxOf(task.id));
    return boxes.length === 0 ? { x: MARGIN, y: MARGIN, scale: 1 } : fitted(padded(around(boxes)), sizeOf());
  }

  function look(next) {
    view = next;
    place();
  }

  function figureOf(id) {
    return [...tasks.children].find((each) => each.dataset.task === id);
  }

  /** Give a task the focus, and bring it into view. */
  function focus(id) {
    figureOf(id)?.focus({ preventScroll: true });
  }

  /** Bring a task into view if it is not. */
  function reveal(id) {
    const { width, height } = sizeOf();
    const box = boxOf(id);
    const [left, top] = [box.x * view.scale + view.x, box.y * view.scale + view.y];
    const [right, bottom] = [left + box.width * view.scale, top + box.height * view.scale];
    const across = left < MARGIN / 2 ? MARGIN / 2 - left : Math.min(0, width - MARGIN / 2 - right);
    const down = top < MARGIN / 2 ? MARGIN / 2 - top : Math.min(0, height - MARGIN / 2 - bottom);
    look(panned(view, across, down));
  }

  /** The point of the drawing at a point of the window; null if that is not on the canvas. */
  function pointOf({ clientX, clientY }) {
    const { left, top, right, bottom } = drawing.getBoundingClientRect();
    const isWithin = clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
    return isWithin ? pointAt(view, { x: clientX - left, y: clientY - top }) : null;
  }

  listenToPointer(drawing, {
    ...on,
    pan: (across, down) => look(panned(view, across, down)),
    zoom: (factor, at) => look(zoomed(view, factor, at)),
    drag: function drag(id, across, down) {
      const ids = model.selection.has(id) ? model.selection : new Set([id]);
      shift = { ids, across: across / view.scale, down: down / view.scale };
      show();
    },
    drop: function drop() {
      const { ids, across, down } = shift;
      shift = null;
      on.move(ids, across, down);
    },
    point: function point(event) {
      if (model.begun !== null) {
        pointer = pointOf(event);
        showPending();
      }
    },
    isBegun: () => model.begun !== null,
  });
  drawing.addEventListener("keydown", on.key);
  window.addEventListener("resize", () => model !== null && show(), { signal });
  return {
    node, hint, show, focus, reveal, pointOf,
    /** Go to the task that has the focus when the canvas is entered. */
    enter: () => drawing.parentNode.querySelector("[tabindex='0']")?.focus({ preventScroll: true }),
    fit: () => look(framed()),
    closer: (steps) => look(zoomed(view, NOTCH ** steps, middle({ x: 0, y: 0, ...sizeOf() }))),
    /** Begin a new picture, for another document. */
    reset: () => (view = null),
    forget: () => (pointer = null),
  };
}

/** Make the figures anew that look different by now, `{id, key, make()}`, and leave the others as they are. */
function renew(group, known, wanted) {
  const ids = new Set(wanted.map(({ id }) => id));
  for (const [id, { node }] of known) {
    if (!ids.has(id)) {
      node.remove();
      known.delete(id);
    }
  }
  for (const { id, key, make } of wanted) {
    const [before, text] = [known.get(id), JSON.stringify(key)];
    if (before?.text !== text) {
      const node = make();
      if (before === undefined) {
        group.append(node);
      } else {
        before.node.replaceWith(node);
      }
      known.set(id, { text, node });
    }
  }
}

function padded({ x, y, width, height }) {
  return { x: x - 24, y: y - 24, width: width + 48, height: height + 48 };
}
