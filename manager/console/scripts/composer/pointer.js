/** The pointer on the canvas: select, move, pan, zoom, and draw streams from port to port. */

/** The most pixels that a pointer moves during a click. */
const STILL = 4;

/**
 * Listen to a pointer.
 * @param {object} on those of the canvas, with `pan(across, down)`, `zoom(factor, at)`, `drag(id, across, down)`,
 *   `drop()`, `point(event)` and `isBegun()`
 */
export function listenToPointer(drawing, on) {
  let held = null;

  drawing.addEventListener("pointerdown", function down(event) {
    if (event.button !== 0 || held !== null) {
      return;
    }
    const port = event.target.closest("[data-port]");
    const task = event.target.closest("[data-task]")?.dataset.task;
    const stream = event.target.closest("[data-stream]")?.dataset.stream;
    held = { id: event.pointerId, x: event.clientX, y: event.clientY, moved: false, task, stream, begins: false };
    drawing.setPointerCapture(event.pointerId);
    if (port?.dataset.side === "output" && !on.isBegun()) {
      held.begins = true;
      on.begin(task, port.dataset.port);
    }
    event.preventDefault();
  });

  drawing.addEventListener("pointermove", function move(event) {
    on.point(event);
    if (held === null || event.pointerId !== held.id) {
      return;
    }
    const [across, down] = [event.clientX - held.x, event.clientY - held.y];
    held.moved ||= Math.hypot(across, down) > STILL;
    if (!held.moved || on.isBegun()) {
      return;
    }
    if (held.task !== undefined) {
      on.drag(held.task, across, down);
    } else {
      on.pan(across - (held.across ?? 0), down - (held.down ?? 0));
      Object.assign(held, { across, down });
    }
  });

  drawing.addEventListener("pointerup", function up(event) {
    if (held === null || event.pointerId !== held.id) {
      return;
    }
    const { moved, task, stream, begins } = held;
    held = null;
    if (on.isBegun()) {
      // A click on a port begins a stream, and the next click ends it; so does a drag.
      if (!begins || moved) {
        const under = document.elementFromPoint(event.clientX, event.clientY);
        const input = under?.closest('[data-side="input"]');
        const target = under?.closest("[data-task]")?.dataset.task;
        return target === undefined ? on.cancel() : on.end(target, input?.dataset.port);
      }
    } else if (moved && task !== undefined) {
      on.drop();
    } else if (!moved && task !== undefined) {
      on.choose(task, event.shiftKey || event.ctrlKey || event.metaKey);
    } else if (!moved && stream !== undefined) {
      on.chooseStream(Number(stream));
    } else if (!moved) {
      on.clear();
    }
    return undefined;
  });

  drawing.addEventListener("pointercancel", function cancel() {
    const wasDragged = held?.moved && held.task !== undefined && !on.isBegun();
    held = null;
    if (wasDragged) {
      on.drop();
    }
  });
  drawing.addEventListener("dblclick", function twice(event) {
    const task = event.target.closest("[data-task]")?.dataset.task;
    if (task !== undefined) {
      on.configure(task);
    }
  });
  drawing.addEventListener("wheel", function wheel(event) {
    // Without a key the page scrolls.
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const { left, top } = drawing.getBoundingClientRect();
      on.zoom(Math.exp(-Math.max(-200, Math.min(200, event.deltaY)) / 400), { x: event.clientX - left, y: event.clientY - top });
    }
  }, { passive: false });
}
