/** The figures of the canvas: tasks with their ports, and streams. */

import { svg } from "../dom.js";
import { shortened } from "../format.js";
import { workOf } from "./document.js";
import { portAt } from "./places.js";

/** The characters that fit into a line, approximately. */
const FITS = 26;
const MARKS = { runs: "✓", starts: "+", invalid: "!", open: "…" };
const BEND = 60;

/**
 * A task.
 * @param {object} task `{id, type}`
 * @param {object} look `box`, `ports`, `state`, `isSelected`, `isFocusable`, and while a stream is drawn the `refusals`
 *   of its input ports, by port
 */
export function taskFigure(task, { box, ports, state, isSelected, isFocusable, refusals }) {
  const { x, y, width, height } = box;
  const closed = refusals !== null && [...(refusals?.values() ?? [])].every((reason) => reason !== "");
  const line = (at, text, className) => svg("text", { x: x + 14, y: y + at, class: className }, shortened(text, FITS));
  return svg("g", {
    class: `composed ${state.kind}${isSelected ? " selected" : ""}${closed ? " closed" : ""}`, role: "option",
    tabindex: isFocusable ? "0" : "-1", "aria-selected": String(isSelected), dataset: { task: task.id },
  },
  svg("title", {}, `${task.id} ${workOf(task)} ${state.more}`),
  svg("g", { "aria-hidden": "true" },
    svg("rect", { class: "composed-box", x, y, width, height, rx: 6 }),
    line(20, task.id, "composed-id"), line(38, workOf(task)),
    line(56, `${MARKS[state.kind]} ${state.words}`, "composed-how"),
    sideOf(box, ports.inputs, false, refusals), sideOf(box, ports.outputs, true, null)));
}

/** A stream between two points, dashed if a guard opens and closes it; `look` has whether it is selected or wrong. */
export function streamFigure(stream, begin, end, { isSelected, isWrong }) {
  const isGuarded = stream.when !== undefined;
  const looks = `joined${isSelected ? " selected" : ""}${isWrong ? " invalid" : ""}${isGuarded ? " guarded" : ""}`;
  return svg("g", { class: looks, dataset: { stream: stream.at } },
    svg("title", {}, `A stream from ${stream.from} to ${stream.to}${isGuarded ? ", open while its guard permits" : ""}`),
    svg("path", { class: "joined-touch", d: curve(begin, end) }),
    svg("path", { class: "joined-line", d: curve(begin, end) }),
    svg("path", { class: "joined-head", d: `M ${end[0] - 6} ${end[1]} l -8 -4.5 v 9 z` }));
}

/** The stream that is being drawn, to a point. */
export function pendingFigure(begin, end) {
  return svg("path", { class: "joined-pending", d: curve(begin, end) });
}

function sideOf(box, ports, isOutput, refusals) {
  const [side, anchor, aside] = isOutput ? ["output", "start", 10] : ["input", "end", -10];
  return (ports ?? []).map(function port(name) {
    const [x, y] = portAt(box, ports, name, isOutput);
    const reason = refusals?.get(name) ?? "";
    const fits = refusals !== null && refusals !== undefined && !isOutput && reason === "";
    return svg("g", { class: `port ${side}${fits ? " fits" : ""}`, dataset: { port: name, side } },
      svg("title", {}, reason || `${isOutput ? "Output" : "Input"} port ${name} of ${box.id}`),
      svg("circle", { class: "port-touch", cx: x, cy: y, r: 13 }),
      svg("circle", { class: "port-dot", cx: x, cy: y, r: 6 }),
      ports.length > 1 ? svg("text", { class: "port-name", x: x + aside, y: y - 5, "text-anchor": anchor }, shortened(name, FITS)) : null);
  });
}

function curve([x, y], [toX, toY]) {
  const bend = Math.max(BEND / 2, Math.min(BEND * 2, Math.abs(toX - x) / 2));
  return `M ${x} ${y} C ${x + bend} ${y} ${toX - bend} ${toY} ${toX} ${toY}`;
}
