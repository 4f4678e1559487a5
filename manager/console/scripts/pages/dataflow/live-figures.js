/** The figures of the graph of a running dataflow: tasks with what is known of them, and streams. */

import { svg } from "../../dom.js";
import { shortened } from "../../format.js";
import { kindOf, loadOf, ratesOf, remarksOf } from "./task-words.js";

/** The width of every task in the graph; its height is that of its lines. */
export const WIDTH = 224;
const LINE = 18;
/** The characters that fit into a line, approximately. */
const FITS = 31;

/** The height of a task, which has fewer lines if it is one of many. */
export function heightOf(isOfMany) {
  return (isOfMany ? 3 : 5) * LINE + 14;
}

/** A task, with fewer lines if it is one of many; `update(figures)` puts new ones into it, null where none are known. */
export function taskFigure(task, { x, y }, height, isOfMany) {
  const title = svg("title", {});
  const lines = new Map();
  function line(name, text = "") {
    const at = y + 6 + LINE * (lines.size + 0.75);
    const written = svg("text", { x: x + 12, y: at, class: `flow-${name}` }, text);
    lines.set(name, written);
    return written;
  }
  const content = [
    line("id", shortened(task.id, FITS)), isOfMany ? null : line("kind", shortened(kindOf(task), FITS)),
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
        lines.get(name).textContent = shortened(text, FITS);
      }
    }
    const words = [`${task.id}, ${kindOf(task)}`, ...Object.values(parts), figures?.reason].filter(Boolean).join(", ");
    title.textContent = words;
    node.setAttribute("class", `flow-task ${figures?.state ?? "unknown"}${figures?.others > 0 ? " shared" : ""}`);
  }

  return { box: task, node, update };
}

/** A stream with its head; `update(rate)` shows whether events flow. */
export function streamFigure({ from, to, from_port: fromPort, to_port: toPort }, points) {
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
