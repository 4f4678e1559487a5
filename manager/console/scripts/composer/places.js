/** The places of tasks on the canvas. They are the composer's own, and no part of the document. */

import { layered } from "../graph/layers.js";
import { touch } from "../graph/view.js";

/** The width of every task on the canvas; its height depends on its ports. */
export const WIDTH = 208;
const LEAST_HEIGHT = 66;
const PORT = 22;
const APART = 24;
const ACROSS = 56;

/** The height of a task with some ports. */
export function heightOf({ inputs, outputs }) {
  return Math.max(LEAST_HEIGHT, PORT * Math.max(inputs?.length ?? 1, outputs?.length ?? 1) + 14);
}

/** The place of a port on one side of a box. */
export function portAt(box, ports, port, isOutput) {
  const at = Math.max(0, (ports ?? []).indexOf(port));
  return [isOutput ? box.x + box.width : box.x, box.y + (box.height * (at + 1)) / (Math.max(1, ports?.length ?? 1) + 1)];
}

/** All tasks laid out from left to right; heights by task. */
export function arranged({ tasks, streams }, heights) {
  const nodes = tasks.map(({ id }) => ({ id, width: WIDTH, height: heights.get(id) ?? LEAST_HEIGHT }));
  const { at } = layered(nodes, streams.map(({ from, to }) => [from, to]));
  return new Map([...at].map(([id, { x, y }]) => [id, { x: Math.round(x), y: Math.round(y) }]));
}

/** The places of all tasks: known ones stay, and each new one stands right of those that feed it, where there is room. */
export function placed(document, known, heights) {
  const { tasks, streams } = document;
  if (!tasks.some((task) => known.has(task.id))) {
    return arranged(document, heights);
  }
  const places = new Map(tasks.filter(({ id }) => known.has(id)).map(({ id }) => [id, known.get(id)]));
  for (const { id } of tasks.filter((task) => !known.has(task.id))) {
    const above = streams.filter((each) => each.to === id && places.has(each.from)).map((each) => places.get(each.from));
    const wanted = above.length > 0
      ? { x: Math.max(...above.map(({ x }) => x)) + WIDTH + ACROSS, y: Math.min(...above.map(({ y }) => y)) }
      : { x: 0, y: 0 };
    places.set(id, roomAt(wanted, heights.get(id) ?? LEAST_HEIGHT, places, heights));
  }
  return places;
}

/** The closest place at or below a wanted one where a task overlaps no other. */
export function roomAt({ x, y }, height, places, heights) {
  const box = { x, y, width: WIDTH + APART, height: height + APART };
  const boxes = [...places].map(([id, place]) => ({ ...place, width: WIDTH, height: heights.get(id) ?? LEAST_HEIGHT }));
  for (let tries = 0; tries <= boxes.length; tries += 1) {
    const hit = boxes.find((each) => touch(each, box));
    if (hit === undefined) {
      break;
    }
    box.y = hit.y + hit.height + APART;
  }
  return { x: Math.round(x), y: Math.round(box.y) };
}

/** The id of the task that is next to one in a direction, `[across, down]`; undefined if there is none. */
export function neighbour(id, [across, down], places) {
  const here = places.get(id);
  let best;
  for (const [other, place] of places) {
    const [x, y] = [place.x - here.x, place.y - here.y];
    const along = x * across + y * down;
    const aside = Math.abs(x * down) + Math.abs(y * across);
    if (other !== id && along > 0 && (best === undefined || along + 2 * aside < best.far)) {
      best = { other, far: along + 2 * aside };
    }
  }
  return best?.other;
}
