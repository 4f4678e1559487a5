/** The drawing of a dataflow whose tasks are to change. */

import { element, svg } from "../../dom.js";
import { layered, routeOf } from "../../graph/layers.js";

const WIDTH = 190;
const HEIGHT = 66;
const MARGIN = 8;
/** The characters that fit into a line, approximately. */
const FITS = 25;

/**
 * The drawing of a dataflow, which scrolls within itself; a table has the same in text. A mark of a task has the number of
 * its component, whether it is a head of that, and what becomes of it, `{component, isHead, words}`.
 */
export function graph({ tasks, document: written }, marks = new Map()) {
  const nodes = tasks.map((task) => ({ id: task.id, width: WIDTH, height: HEIGHT }));
  const edges = streamsOf(written);
  const drawn = layered(nodes, edges);
  const [width, height] = [drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN];
  return element("div", { class: "dag", role: "region", tabindex: "0", "aria-label": "The graph of its tasks" },
    svg("svg", {
      width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, role: "img",
      "aria-label": `${tasks.length} tasks and ${edges.length} streams between them; the table below lists them`,
    }, edges.map(([from, to]) => edge(drawn.routes.get(routeOf(from, to)))),
    tasks.map((task) => node(task, drawn.at.get(task.id), marks.get(task.id) ?? {}))));
}

/** The status of a task in a word. */
function wordOf(task) {
  if (task.failed) {
    return "failed";
  }
  return task.reused ? "reused" : "started";
}

function streamsOf({ streams = [] }) {
  const pairs = new Map(streams.map((stream) => [routeOf(stream.from, stream.to), [stream.from, stream.to]]));
  return [...pairs.values()];
}

function edge(points) {
  if (!points) {
    return null;
  }
  const [x, y] = points.at(-1);
  return [
    svg("polyline", { class: "dag-stream", points: points.map((point) => point.join(",")).join(" ") }),
    svg("path", { class: "dag-head", d: `M ${x} ${y} l -8 -4 v 8 z` }),
  ];
}

function node(task, { x, y }, { component, isHead = false, words }) {
  const word = wordOf(task);
  function line(at, text, className = "") {
    return svg("text", { x: x + 12, y: y + at, class: className }, shortened(text));
  }
  const part = component === undefined ? "" : `, component ${component}${isHead ? ", head" : ""}`;
  const status = words ?? `${word}${task.failed ? `: ${task.failed}` : ""}`;
  return svg("g", { class: `dag-task ${word}${part ? " marked" : ""}` },
    svg("title", {}, `${task.id}: ${task.type}, instance ${task.instance}, ${status}${part}`),
    svg("rect", { x, y, width: WIDTH, height: HEIGHT, rx: 6 }),
    line(20, task.id, "dag-id"), line(38, task.type), line(56, words ?? `${word}, instance ${task.instance}`, "dag-how"),
    part ? mark(component, isHead, x + WIDTH - 16, y + 16) : null);
}

/** The number of a component in a circle, which is full at heads. */
function mark(component, isHead, x, y) {
  return svg("g", { class: `dag-mark${isHead ? " first" : ""}` },
    svg("circle", { cx: x, cy: y, r: 10 }), svg("text", { x, y: y + 4 }, component));
}

function shortened(text) {
  const characters = [...text];
  return characters.length > FITS ? `${characters.slice(0, FITS - 1).join("")}…` : text;
}
