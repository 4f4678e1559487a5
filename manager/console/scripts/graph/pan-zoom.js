/** Pan, zoom and selection by pointer, wheel, pinch and keys. */

const STEP = 80;
const NOTCH = 1.25;
/** The most pixels that a pointer moves during a click. */
const STILL = 4;
const KEYS = {
  ArrowLeft: (on) => on.pan(STEP, 0),
  ArrowRight: (on) => on.pan(-STEP, 0),
  ArrowUp: (on) => on.pan(0, STEP),
  ArrowDown: (on) => on.pan(0, -STEP),
  "+": (on) => on.zoom(NOTCH),
  "=": (on) => on.zoom(NOTCH),
  "-": (on) => on.zoom(1 / NOTCH),
  0: (on) => on.fit(),
  Enter: (on) => on.enter(),
  Escape: (on) => on.clear(),
};

/**
 * Listen to the input on a canvas.
 * @param {object} on `pan(across, down)`, `zoom(factor, at)`, `choose(at)`, `fit()`, `enter()` and `clear()`; points
 *   are relative to the canvas, in CSS pixels; a zoom by key has no point
 */
export function listenToInput(canvas, on) {
  const pointers = new Map();
  let moved = 0;

  function at(event) {
    const place = canvas.getBoundingClientRect();
    return { x: event.clientX - place.left, y: event.clientY - place.top };
  }

  canvas.addEventListener("pointerdown", function down(event) {
    if (event.button !== 0) {
      return;
    }
    canvas.setPointerCapture(event.pointerId);
    moved = pointers.size === 0 ? 0 : Infinity;
    pointers.set(event.pointerId, at(event));
  });
  canvas.addEventListener("pointermove", function move(event) {
    const before = pointers.get(event.pointerId);
    if (before === undefined) {
      return;
    }
    const now = at(event);
    const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
    const [across, down] = [now.x - before.x, now.y - before.y];
    pointers.set(event.pointerId, now);
    moved += Math.hypot(across, down);
    if (other !== undefined) {
      on.pan(across / 2, down / 2);
      on.zoom(apart(now, other) / apart(before, other), { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 });
    } else if (moved > STILL) {
      on.pan(across, down);
    }
  });
  canvas.addEventListener("pointerup", function up(event) {
    if (pointers.delete(event.pointerId) && moved <= STILL) {
      on.choose(at(event));
    }
  });
  canvas.addEventListener("pointercancel", function cancel(event) {
    pointers.delete(event.pointerId);
  });
  canvas.addEventListener("dblclick", (event) => on.zoom(NOTCH ** 3, at(event)));
  canvas.addEventListener("wheel", function wheel(event) {
    event.preventDefault();
    // Some mice report lines or pages, which are larger than pixels.
    const pixels = event.deltaY * [1, 16, 100][event.deltaMode];
    on.zoom(Math.exp(-Math.max(-200, Math.min(200, pixels)) / 400), at(event));
  }, { passive: false });
  canvas.addEventListener("keydown", function key(event) {
    const known = Object.hasOwn(KEYS, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey;
    if (known) {
      event.preventDefault();
      KEYS[event.key](on);
    }
  });
}

function apart(one, other) {
  return Math.max(1, Math.hypot(one.x - other.x, one.y - other.y));
}
