/** The layout of the running graph: a box for each job with its tasks, and the streams between. */

import { layered, routeOf } from "./layers.js";

const TASK = { width: 192, height: 60 };
const LEAST_WIDTH = 224;
const PADDING = 16;
const TITLE = 48;

/** The tasks of `GET /v1/running/tasks` by job: a map in the order of jobs. */
export function byJob(tasks) {
  const jobs = new Map();
  for (const job of [...new Set(tasks.map(jobOf))].sort(inOrder)) {
    jobs.set(job, []);
  }
  tasks.forEach((task) => jobs.get(task.job).push(task));
  return jobs;
}

/** A text of all that a layout depends on: if it is equal, so is the layout. */
export function shapeOf(tasks) {
  return tasks.map((task) => `${task.instance}:${task.job}:${task.inputs}`).join(";");
}

/**
 * The running graph laid out.
 * @param {Array} tasks those of `GET /v1/running/tasks`
 * @param {Map} kept the earlier layouts of jobs, so that only changed ones are laid out again
 * @returns {{width, height, boxes: Map, nodes: Map, edges: Array}} boxes by job, nodes by instance
 */
export function layoutOf(tasks, kept = new Map()) {
  const jobs = byJob(tasks);
  const inner = new Map([...jobs].map(([job, members]) => [job, within(job, members, kept)]));
  const sizes = [...inner].map(([job, { drawn }]) => ({
    id: job, width: Math.max(LEAST_WIDTH, drawn.width + 2 * PADDING), height: drawn.height + 2 * PADDING + TITLE,
  }));
  const homes = new Map(tasks.map((task) => [task.instance, task.job]));
  const crossing = tasks.flatMap((task) => crossings(task, homes));
  const outer = layered(sizes, crossing.map(({ from, to }) => [homes.get(from), homes.get(to)]), { wraps: true });
  const layout = { width: outer.width, height: outer.height, boxes: new Map(), nodes: new Map(), edges: [] };
  for (const { id: job, width, height } of sizes) {
    const box = { job, ...outer.at.get(job), width, height, tasks: jobs.get(job) };
    layout.boxes.set(job, box);
    place(layout, box, inner.get(job));
  }
  layout.edges.push(...between(layout, crossing, homes, outer.routes));
  layout.edges.forEach((edge) => Object.assign(edge, bounds(edge.points)));
  return layout;
}

function jobOf(task) {
  return task.job;
}

function inOrder(one, other) {
  return one.localeCompare(other, "en", { numeric: true });
}

/** The layout of the tasks within a job. */
function within(job, members, kept) {
  const shape = shapeOf(members);
  const before = kept.get(job);
  if (before?.shape === shape) {
    return before;
  }
  const nodes = members.map((task) => ({ id: task.instance, ...TASK }));
  const edges = members.flatMap((task) => task.inputs.map((parent) => [parent, task.instance]));
  const made = { shape, members, drawn: layered(nodes, edges) };
  kept.set(job, made);
  return made;
}

function crossings(task, homes) {
  return task.inputs
    .filter((parent) => homes.has(parent) && homes.get(parent) !== task.job)
    .map((parent) => ({ from: parent, to: task.instance }));
}

function place(layout, box, { members, drawn }) {
  const [left, top] = [box.x + PADDING, box.y + PADDING + TITLE];
  for (const task of members) {
    const { x, y } = drawn.at.get(task.instance);
    layout.nodes.set(task.instance, { instance: task.instance, job: box.job, x: left + x, y: top + y, ...TASK });
    for (const parent of task.inputs) {
      const route = drawn.routes.get(routeOf(parent, task.instance));
      if (route) {
        const points = route.map(([across, down]) => [left + across, top + down]);
        layout.edges.push({ from: [parent], to: [task.instance], bridge: false, points });
      }
    }
  }
}

/** The streams between jobs: one line for all that have the same ends. */
function between(layout, crossing, homes, routes) {
  const lines = new Map();
  for (const { from, to } of crossing) {
    const [begin, end] = [layout.nodes.get(from), layout.nodes.get(to)];
    const route = routes.get(routeOf(homes.get(from), homes.get(to)));
    const points = [
      [begin.x + begin.width, begin.y + begin.height / 2], ...route, [end.x, end.y + end.height / 2],
    ];
    lines.set(routeOf(from, to), { from: [from], to: [to], bridge: true, points });
  }
  return lines.values();
}

function bounds(points) {
  const box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  for (const [x, y] of points) {
    box.left = Math.min(box.left, x);
    box.right = Math.max(box.right, x);
    box.top = Math.min(box.top, y);
    box.bottom = Math.max(box.bottom, y);
  }
  return { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top };
}
