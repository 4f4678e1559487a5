/** The preview of a reconfiguration: what changes where, drawn and as a table. */

import { newKey } from "../../../api.js";
import { element, named, replace, svg, table } from "../../../dom.js";
import { counted, seconds, shortened } from "../../../format.js";
import { layered, routeOf } from "../../../graph/layers.js";

const STATES = {
  none: "has none", kept: "kept as it is", transformed: "transformed to the new config", fresh: "fresh: it begins without state",
  dropped: "dropped with the task",
};
const IN_SHORT = { none: "no state", kept: "state kept", transformed: "state transformed", fresh: "fresh state", dropped: "state dropped" };
const WIDTH = 190;
const HEIGHT = 66;
const MARGIN = 8;
/** The characters that fit into a line, approximately. */
const FITS = 25;

/**
 * Show a preview below its title, with a button that applies it. `apply(key)` gets one key for each preview: applied again
 * after a lost answer, it is the same reconfiguration.
 */
export function showPreview(place, title, scope, words, apply) {
  const key = newKey();
  replace(place, element("section", { class: "card", "aria-labelledby": title.id }, title, scope,
    element("button", { class: "button first", type: "button", on: { click: () => apply(key) } }, words)));
  title.focus();
}

/** What a reconfiguration does, in words, as a drawing of the dataflow and as a table. */
export function scopeOf({ scope, dataflows }, dataflow, types) {
  function stateOf({ task, state }) {
    const type = dataflow.tasks.find((each) => each.id === task)?.type;
    return state === "kept" && types.known.get(type)?.state === "none" ? "none" : state;
  }
  return [
    element("p", {}, delayOf(scope)),
    graph(dataflow, marksOf(scope, dataflow, stateOf)),
    element("ul", { class: "plain", "aria-label": "Components" }, scope.components.map((each, place) => element("li", {},
      `Component ${place + 1}, whose tasks switch in step: `, listed(each.tasks, dataflow), ". ",
      each.heads.length === 1 ? "Head: " : "Heads: ", listed(each.heads, dataflow), "."))),
    scope.components.length === 0 ? null : element("p", { class: "faint" },
      "The drawing has the number of the component at each task, and full circles at heads, which switch first."),
    table([
      { title: "Task", cell: (each) => named(each.task) },
      ...(dataflows.length > 1 ? [{ title: "Dataflow", cell: (each) => element("code", {}, each.dataflow) }] : []),
      { title: "How", cell: (each) => element("div", { class: "wide" }, howOf(each)) },
      { title: "State", cell: (each) => STATES[stateOf(each)] },
      { title: "Job", cell: (each) => each.job },
    ], scope.tasks, { caption: "Tasks that change", empty: "No task changes." }),
  ];
}

/** The marks of a dataflow's tasks in the drawing, by task. */
function marksOf({ components, tasks }, { id }, stateOf) {
  const marks = new Map();
  components.forEach(function mark(component, place) {
    for (const task of component.tasks) {
      marks.set(task, { component: place + 1, isHead: component.heads.includes(task) });
    }
  });
  for (const each of tasks.filter((one) => one.dataflow === id)) {
    marks.set(each.task, { ...marks.get(each.task), words: `${each.presence !== "stays" ? each.presence : each.in_place ? "in place" : "copied"}, ${IN_SHORT[stateOf(each)]}` });
  }
  return marks;
}

function delayOf({ jobs, waiting, delay_seconds: delay }) {
  const whole = jobs.length === 0
    ? "It takes effect at once."
    : `It takes effect within about ${seconds(delay)}, in ${numbered(jobs)}.`;
  const [first, ...others] = numbered(waiting);
  return waiting.length === 0 ? whole
    : `${whole} ${first.toUpperCase()}${others.join("")} ${waiting.length === 1 ? "waits" : "wait"} for a marker from another job.`;
}

function numbered(jobs) {
  return `${jobs.length === 1 ? "job" : "jobs"} ${jobs.join(", ")}`;
}

/** Whether a task is inserted, taken out, changed in place or copied, and why. */
function howOf({ in_place: isInPlace, presence, shared, changed }) {
  if (presence !== "stays") {
    return presence === "inserted" ? "inserted between others" : "taken out between others";
  }
  if (isInPlace) {
    return changed ? "changed in place" : "in place; other events reach it";
  }
  const how = changed ? "copied and changed" : "copied";
  return `${how}, because ${shared ? "other dataflows use it as it is" : "a task above it is copied"}`;
}

function listed(names, { tasks }) {
  return names.flatMap(function comma(name, index) {
    const words = tasks.some((task) => task.id === name) ? named(name) : `instance ${name}`;
    return index === 0 ? [words] : [", ", words];
  });
}

/**
 * The drawing of a dataflow, which scrolls within itself; the table has the same in text. A mark of a task has the number of
 * its component, whether it is a head of that, and what becomes of it, `{component, isHead, words}`.
 */
function graph({ tasks, document: written }, marks) {
  const nodes = tasks.map((task) => ({ id: task.id, width: WIDTH, height: HEIGHT }));
  const edges = streamsOf(written);
  const drawn = layered(nodes, edges);
  const [width, height] = [drawn.width + 2 * MARGIN, drawn.height + 2 * MARGIN];
  return element("div", { class: "dag", role: "region", tabindex: "0", "aria-label": "The graph of its tasks" },
    svg("svg", {
      width, height, viewBox: `${-MARGIN} ${-MARGIN} ${width} ${height}`, role: "img",
      "aria-label": `${counted(tasks.length, "task")} and ${counted(edges.length, "stream")} between them; the table below lists them`,
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
    return svg("text", { x: x + 12, y: y + at, class: className }, shortened(text, FITS));
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
