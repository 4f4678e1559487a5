/** The drawing of the graph on a canvas: only the part in view, without what is too small to read. */

import { count } from "../format.js";
import { seen, touch } from "./view.js";
import { counted } from "../plurals.js";

/** The scales from which tasks have text, and outlines. */
const READABLE = 0.42;
const OUTLINED = 0.12;
/** The length in pixels below which streams are not drawn. */
const VISIBLE = 1.5;
const DIM = 0.22;
const LONGEST = 25;

/**
 * Draw a layout in a view.
 * @param {CanvasRenderingContext2D} pen scaled to CSS pixels
 * @param {object} look `tasks` by instance, `colours`, `theme`, `chosen` (`{instance}` or `{job}`), `marked` (a set of
 *   instances, or null if nothing is highlighted) and `jobs` (those of `GET /v1/jobs`, by name)
 * @returns {{tasks: number, jobs: number, streams: number}} the number of each that were drawn
 */
export function draw(pen, layout, view, size, look) {
  const frame = seen(view, size);
  pen.save();
  pen.fillStyle = look.theme.ground;
  pen.fillRect(0, 0, size.width, size.height);
  pen.translate(view.x, view.y);
  pen.scale(view.scale, view.scale);
  pen.textBaseline = "middle";
  const boxes = [...layout.boxes.values()].filter((box) => touch(box, frame));
  const edges = layout.edges.filter((edge) => touch(edge, frame) && (edge.width + edge.height) * view.scale >= VISIBLE);
  const open = new Set(boxes.filter((box) => box.open).map((box) => box.job));
  const nodes = [];
  for (const node of layout.nodes.values()) {
    if (open.has(node.job) && touch(node, frame)) {
      nodes.push(node);
    }
  }
  boxes.forEach((box) => drawBox(pen, box, view, look));
  drawEdges(pen, edges, view, look);
  drawNodes(pen, nodes, view, look);
  pen.restore();
  return { tasks: nodes.length, jobs: boxes.length, streams: edges.length };
}

function drawBox(pen, box, view, look) {
  const { theme } = look;
  const dim = !box.open && look.marked !== null && !box.tasks.some((task) => look.marked.has(task.instance));
  pen.globalAlpha = dim ? DIM : 1;
  pen.fillStyle = theme.surface;
  pen.fillRect(box.x, box.y, box.width, box.height);
  pen.fillStyle = look.colours.ofJob(box.job);
  pen.fillRect(box.x, box.y, box.open ? box.width : 8, box.open ? 4 : box.height);
  const chosen = look.chosen?.job === box.job;
  outline(pen, box, chosen ? theme.accent : theme.line, chosen ? 3 : 1, view);
  if (view.scale >= (box.open ? OUTLINED : READABLE / 2)) {
    const failed = box.tasks.filter((task) => task.state === "failed").length;
    pen.fillStyle = theme.text;
    pen.font = `600 15px ${theme.font}`;
    pen.fillText(`job ${box.job} · ${look.jobs.get(box.job)?.state ?? "state unknown"}`, box.x + 18, box.y + 24);
    if (!box.open) {
      pen.font = `13px ${theme.font}`;
      pen.fillText(counted(box.tasks.length, "task"), box.x + 18, box.y + 48);
    }
    if (failed > 0) {
      pen.fillStyle = theme.bad;
      pen.textAlign = "right";
      pen.fillText(`${count(failed)} failed`, box.x + box.width - 12, box.y + (box.open ? 24 : 48));
      pen.textAlign = "left";
    }
  }
  pen.globalAlpha = 1;
}

/** One path for each style: thousands of single strokes would take longer than a frame. */
function drawEdges(pen, edges, view, look) {
  const styles = [
    { dim: true, colour: look.theme.faint, width: 1, edges: [] },
    { dim: false, colour: look.theme.faint, width: 1.2, edges: [] },
    { dim: false, colour: look.theme.accent, width: 2.5, edges: [] },
  ];
  for (const edge of edges) {
    const mark = look.marked === null ? 1 : isMarked(edge, look.marked) ? 2 : 0;
    styles[isChosen(edge, look.chosen) ? 2 : mark].edges.push(edge);
  }
  for (const style of styles.filter((each) => each.edges.length > 0)) {
    pen.globalAlpha = style.dim ? DIM : 1;
    pen.strokeStyle = style.colour;
    pen.lineWidth = style.width / Math.min(1, view.scale * 1.5);
    pen.beginPath();
    for (const { points } of style.edges) {
      pen.moveTo(points[0][0], points[0][1]);
      for (let at = 1; at < points.length; at += 1) {
        pen.lineTo(points[at][0], points[at][1]);
      }
    }
    pen.stroke();
  }
  pen.globalAlpha = 1;
}

function isMarked(edge, marked) {
  return edge.from.some((from, at) => marked.has(from) && marked.has(edge.to[at]));
}

function isChosen(edge, chosen) {
  return chosen?.instance !== undefined && (edge.from.includes(chosen.instance) || edge.to.includes(chosen.instance));
}

function drawNodes(pen, nodes, view, look) {
  for (const node of nodes) {
    const task = look.tasks.get(node.instance);
    pen.globalAlpha = look.marked !== null && !look.marked.has(node.instance) ? DIM : 1;
    if (view.scale < READABLE) {
      pen.fillStyle = task.state === "failed" ? look.theme.bad : look.colours.of(task);
      pen.fillRect(node.x, node.y, node.width, node.height);
    } else {
      drawText(pen, node, task, look);
    }
    const chosen = look.chosen?.instance === node.instance;
    const marked = look.marked?.has(node.instance);
    if (chosen || marked) {
      outline(pen, node, look.theme.accent, chosen ? 4 : 2, view);
    } else if (view.scale >= OUTLINED) {
      outline(pen, node, task.state === "failed" ? look.theme.bad : look.theme.line, 1, view);
    }
  }
  pen.globalAlpha = 1;
}

function drawText(pen, node, task, { theme, colours }) {
  pen.fillStyle = theme.ground;
  pen.fillRect(node.x, node.y, node.width, node.height);
  pen.fillStyle = colours.of(task);
  pen.fillRect(node.x, node.y, 6, node.height);
  pen.fillStyle = theme.text;
  pen.font = `600 12px ${theme.font}`;
  pen.fillText(shortened(task.type), node.x + 13, node.y + 13);
  pen.font = `11px ${theme.font}`;
  pen.fillStyle = task.state === "failed" ? theme.bad : theme.faint;
  const words = task.state === "active" ? counted(task.dataflows, "dataflow") : task.state;
  pen.fillText(`#${task.instance} · ${words}`, node.x + 13, node.y + 29);
}

function outline(pen, box, colour, width, view) {
  pen.strokeStyle = colour;
  pen.lineWidth = width / Math.min(1, view.scale);
  pen.strokeRect(box.x, box.y, box.width, box.height);
}

function shortened(text) {
  return text.length > LONGEST ? `${text.slice(0, LONGEST - 1)}…` : text;
}
