/**
 * The drawing of the graph on a canvas: only the part in view, and as much of it as can be read at its scale. From afar
 * jobs are boxes with their counts and load; nearer there are tasks, then their names, then their figures.
 */

import { cores, count, counted, shortened } from "../format.js";
import { seen, touch } from "./view.js";
import { loadOf } from "./colours.js";
import { perSecond } from "./figures.js";
import { nameOf } from "./names.js";

/** The scales from which there are tasks, their names, and their figures. */
export const LEVELS = { tasks: 0.11, names: 0.25, figures: 0.85 };
/** The scales from which a name has beside it how many dataflows share the task, and below it the type. */
const COUNTED = 0.35;
const TYPED = 0.5;
/** The length in pixels below which streams are not drawn. */
const VISIBLE = 1.5;
const DIM = 0.22;
/** The part of a font's size that a character is wide, approximately. */
const WIDE = 0.56;
const NARROW = { width: 44, height: 18 };

/**
 * Draw a layout in a view.
 * @param {CanvasRenderingContext2D} pen scaled to CSS pixels
 * @param {object} look `tasks` by instance, `colours`, `theme`, `chosen` (`{instance}` or `{job}`), `marked` (a set of
 *   instances, or null if nothing is highlighted) and `jobs` (those of `GET /v1/jobs`, by name)
 * @returns {{tasks: number, jobs: number, streams: number}} the number of each that were drawn
 */
export function draw(pen, layout, view, size, look) {
  const frame = seen(view, size);
  const isFar = view.scale < LEVELS.tasks;
  pen.save();
  pen.fillStyle = look.theme.ground;
  pen.fillRect(0, 0, size.width, size.height);
  pen.translate(view.x, view.y);
  pen.scale(view.scale, view.scale);
  pen.textBaseline = "middle";
  const boxes = [...layout.boxes.values()].filter((box) => touch(box, frame));
  const edges = layout.edges.filter((edge) => (edge.bridge || !isFar) && touch(edge, frame)
    && (edge.width + edge.height) * view.scale >= VISIBLE);
  const nodes = [];
  if (!isFar) {
    const shown = new Set(boxes.map((box) => box.job));
    for (const node of layout.nodes.values()) {
      if (shown.has(node.job) && touch(node, frame)) {
        nodes.push(node);
      }
    }
  }
  boxes.forEach((box) => drawBox(pen, box, view, look, isFar));
  drawEdges(pen, edges, view, look);
  drawNodes(pen, nodes, view, look);
  pen.restore();
  return { tasks: nodes.length, jobs: boxes.length, streams: edges.length };
}

function drawBox(pen, box, view, look, isFar) {
  const { theme } = look;
  const { scale } = view;
  pen.globalAlpha = isFar && look.marked !== null && !box.tasks.some((task) => look.marked.has(task.instance)) ? DIM : 1;
  pen.fillStyle = theme.surface;
  pen.fillRect(box.x, box.y, box.width, box.height);
  pen.fillStyle = look.colours.ofJob(box.job);
  pen.fillRect(box.x, box.y, box.width, 5 / Math.max(scale, LEVELS.tasks / 2));
  const chosen = look.chosen?.job === box.job;
  outline(pen, box, chosen ? theme.accent : theme.line, chosen ? 3 : 1, view);
  const failed = box.tasks.filter((task) => task.state === "failed").length;
  if (isFar) {
    drawSummary(pen, box, scale, look, failed);
  } else {
    const size = bounded(13 / scale, 15, 38);
    const state = look.jobs.get(box.job)?.state;
    pen.font = `600 ${size}px ${theme.font}`;
    pen.fillStyle = failed > 0 ? theme.bad : theme.text;
    const words = [`job ${box.job}`, ...(state ? [state] : []), ...(failed > 0 ? [`${count(failed)} failed`] : [])];
    pen.fillText(fitted(words.join(" · "), box.width - 36, size), box.x + 18, box.y + 32);
  }
  pen.globalAlpha = 1;
}

/** A job from afar: the text has the size of the screen, as much of it as there is room for. */
function drawSummary(pen, box, scale, { theme, colours }, failed) {
  pen.save();
  pen.globalAlpha *= 0.3;
  pen.fillStyle = failed > 0 ? theme.bad : colours.ofJob(box.job);
  pen.fillRect(box.x, box.y, box.width, box.height);
  pen.restore();
  const room = { width: box.width * scale, height: box.height * scale };
  if (room.width < NARROW.width || room.height < NARROW.height) {
    return;
  }
  const load = loadOf(box.tasks);
  const lines = [
    `job ${box.job}`, counted(box.tasks.length, "task"), ...(load === null ? [] : [`${cores(load)} cores`]),
    ...(failed > 0 ? [`${count(failed)} failed`] : []),
  ].slice(0, Math.floor((room.height - 2) / 16));
  const size = 12 / scale;
  lines.forEach(function write(line, at) {
    pen.font = `${at === 0 ? "600 " : ""}${size}px ${theme.font}`;
    pen.fillStyle = theme.text;
    pen.fillText(fitted(line, box.width - 10 / scale, size), box.x + 6 / scale, box.y + (13 + 16 * at) / scale);
  });
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
    if (view.scale < LEVELS.names) {
      pen.fillStyle = task.state === "failed" ? look.theme.bad : look.colours.of(task);
      pen.fillRect(node.x, node.y, node.width, node.height);
    } else {
      drawText(pen, node, task, view, look);
    }
    const chosen = look.chosen?.instance === node.instance;
    const marked = look.marked?.has(node.instance);
    if (chosen || marked) {
      outline(pen, node, look.theme.accent, chosen ? 4 : 2, view);
    } else {
      outline(pen, node, task.state === "failed" ? look.theme.bad : look.theme.line, 1, view);
    }
  }
  pen.globalAlpha = 1;
}

/** The name of a task, with how many dataflows share it; from nearby also its type and figures. */
function drawText(pen, node, task, { scale }, { theme, colours }) {
  const [left, size] = [node.x + 14, bounded(11 / scale, 12, 40)];
  pen.fillStyle = theme.ground;
  pen.fillRect(node.x, node.y, node.width, node.height);
  pen.fillStyle = colours.of(task);
  pen.fillRect(node.x, node.y, 7, node.height);
  const shared = task.dataflows > 1 && scale >= COUNTED ? `×${count(task.dataflows)}` : "";
  const room = node.width - 22;
  function write(text, height, font, colour, most = room) {
    pen.font = `${font === size ? "600 " : ""}${font}px ${theme.font}`;
    pen.fillStyle = colour;
    pen.fillText(fitted(text, most, font), left, node.y + height);
  }
  const height = scale < TYPED ? 30 : scale < LEVELS.figures ? 20 : 14;
  write(nameOf(task), height, size, task.state === "failed" ? theme.bad : theme.text, room - (shared.length + 1) * size * WIDE);
  if (shared) {
    pen.textAlign = "right";
    pen.font = `${size}px ${theme.font}`;
    pen.fillStyle = theme.accent;
    pen.fillText(shared, node.x + node.width - 8, node.y + height);
    pen.textAlign = "left";
  }
  const kind = task.state === "active" ? task.type : `${task.state} · ${task.type}`;
  const colour = task.state === "failed" ? theme.bad : theme.faint;
  if (scale < LEVELS.figures) {
    if (scale >= TYPED) {
      write(kind, 44, size * 0.8, colour);
    }
    return;
  }
  write(kind, 31, 11, colour);
  const rate = task.inputs.length > 0 ? task.events_in_per_second : task.events_out_per_second;
  write(typeof rate === "number" ? `${perSecond(rate)} · ${cores(task.cores)} cores` : "no figures yet", 47, 11, theme.faint);
}

function outline(pen, box, colour, width, view) {
  pen.strokeStyle = colour;
  pen.lineWidth = width / Math.min(1, view.scale);
  pen.strokeRect(box.x, box.y, box.width, box.height);
}

function bounded(number, least, most) {
  return Math.min(most, Math.max(least, number));
}

function fitted(text, width, font) {
  return shortened(text, Math.floor(width / (font * WIDE)));
}
