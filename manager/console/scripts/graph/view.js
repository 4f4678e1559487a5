/** The view of a drawing, `{x, y, scale}`: a point of it is on the screen at `point * scale + (x, y)`. */

/** The bounds of the scale. */
export const SCALES = { least: 0.01, most: 3 };
const MARGIN = 16;

/** The view that shows a whole box in the middle, at a scale of at most 1. */
export function fitted(box, size) {
  const room = { width: Math.max(1, size.width - 2 * MARGIN), height: Math.max(1, size.height - 2 * MARGIN) };
  const scale = bounded(Math.min(1, room.width / Math.max(1, box.width), room.height / Math.max(1, box.height)));
  return centred({ x: box.x + box.width / 2, y: box.y + box.height / 2 }, scale, size);
}

/** The view with a point of the drawing in the middle. */
export function centred(point, scale, size) {
  return { scale, x: size.width / 2 - point.x * scale, y: size.height / 2 - point.y * scale };
}

/** The view moved by so much on the screen. */
export function panned(view, across, down) {
  return { ...view, x: view.x + across, y: view.y + down };
}

/** The view scaled by a factor around a point of the screen. */
export function zoomed(view, factor, at) {
  const scale = bounded(view.scale * factor);
  const point = pointAt(view, at);
  return { scale, x: at.x - point.x * scale, y: at.y - point.y * scale };
}

/** The point of the drawing that is at a point of the screen. */
export function pointAt(view, at) {
  return { x: (at.x - view.x) / view.scale, y: (at.y - view.y) / view.scale };
}

/** The part of the drawing that a screen of a size shows. */
export function seen(view, size) {
  const { x, y } = pointAt(view, { x: 0, y: 0 });
  return { x, y, width: size.width / view.scale, height: size.height / view.scale };
}

/** The box around some boxes. */
export function around(boxes) {
  const [x, y] = [Math.min(...boxes.map((box) => box.x)), Math.min(...boxes.map((box) => box.y))];
  const right = Math.max(...boxes.map((box) => box.x + box.width));
  const bottom = Math.max(...boxes.map((box) => box.y + box.height));
  return { x, y, width: right - x, height: bottom - y };
}

/** Two boxes overlap or touch. */
export function touch(one, other) {
  return (
    one.x <= other.x + other.width && other.x <= one.x + one.width &&
    one.y <= other.y + other.height && other.y <= one.y + one.height
  );
}

/** A point is in a box. */
export function holds(box, point) {
  return touch(box, { ...point, width: 0, height: 0 });
}

/** The middle of a box. */
export function middle(box) {
  return { x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

function bounded(scale) {
  return Math.min(SCALES.most, Math.max(SCALES.least, scale));
}
