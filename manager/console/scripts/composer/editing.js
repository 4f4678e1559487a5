/** What hands do on the canvas: add, choose, move, connect, copy and remove tasks, by pointer and by keys. */

import { element, replace } from "../dom.js";
import { openPort, refusal, shortened } from "./connecting.js";
import {
  copied, copiedIn, freshId, taskOf, withCopies, withoutStream, withoutTasks, withStream, withTask,
} from "./document.js";
import { actionOf } from "./keyboard.js";
import { printed } from "./json-edits.js";
import { heightOf, neighbour, roomAt, WIDTH } from "./places.js";

const STEP = 20;
const BESIDE = 40;

/**
 * The hands on a composition.
 * @param {object} on the place `alert` for refusals, `say(text)`, `focusTask()` goes to the form, `searchTypes()` to the
 *   palette, and `draw()` draws again
 */
export function editing(composing, { alert, say, focusTask, searchTypes, draw }) {
  let canvas = null;
  let begun = null;

  function refuse(reason) {
    replace(alert, element("p", { class: "composer-refusal", role: "alert" }, reason));
    return false;
  }

  /** Edit the text, which must be JSON for that. */
  function edit(change, options) {
    replace(alert);
    if (!composing.isDrawn) {
      return refuse("The document is not JSON at the moment. Correct it first; the canvas shows how it was before.");
    }
    composing.edit(change(composing.text), options);
    return true;
  }

  function look(id) {
    canvas.reveal(id);
    canvas.focus(id);
  }

  function addAt(type, wanted) {
    const id = freshId(composing.document, type.name.slice(type.name.indexOf(":") + 1));
    const height = heightOf(type);
    const at = wanted === null ? besideSelected() : { x: wanted.x - WIDTH / 2, y: wanted.y - height / 2 };
    const places = new Map([...composing.places, [id, roomAt(at, height, composing.places, composing.heights)]]);
    if (edit((text) => withTask(text, { id, type: type.name }), { places })) {
      composing.select([id]);
      look(id);
      say(`Added ${id}.`);
    }
  }

  function besideSelected() {
    const place = composing.places.get([...composing.selection].at(-1))
      ?? [...composing.places.values()].sort((one, other) => one.x - other.x).at(-1);
    return place === undefined ? { x: 0, y: 0 } : { x: place.x + WIDTH + BESIDE, y: place.y };
  }

  /** Lead a stream, whose ports are named, from a task to another. */
  function connect(stream) {
    const reason = refusal(composing.document, stream, composing.ports, composing.previews);
    if (reason !== "") {
      return refuse(`No stream from ${stream.from} to ${stream.to}. ${reason}`);
    }
    const made = edit((text) => withStream(text, shortened(stream, composing.ports)));
    if (made) {
      say(`Connected ${stream.from} to ${stream.to}.`);
    }
    return made;
  }

  function begin(from, port) {
    replace(alert);
    begun = { from, from_port: port, refusals: refusalsFor(from, port) };
    say(`A stream from ${from}, port ${port}: choose where it leads. Escape cancels.`);
    draw();
  }

  function refusalsFor(from, port) {
    const { document: drawn, ports, previews } = composing;
    return new Map(drawn.tasks.map(({ id }) => [id, new Map((ports.get(id)?.inputs ?? []).map((input) => [
      input, refusal(drawn, { from, from_port: port, to: id, to_port: input }, ports, previews),
    ]))]));
  }

  function end(to, port = openPort(composing.document, to, composing.ports)) {
    const { from, from_port: left } = begun;
    stop();
    connect({ from, from_port: left, to, to_port: port });
  }

  function stop() {
    begun = null;
    canvas.forget();
    draw();
  }

  /** Begin a stream by key at a task, or at its next port if one is begun there. */
  function beginNext(id) {
    const outputs = composing.ports.get(id)?.outputs ?? [];
    const at = begun?.from === id ? (outputs.indexOf(begun.from_port) + 1) % outputs.length : 0;
    if (outputs.length === 0) {
      refuse(`${id} has no output port.`);
    } else {
      begin(id, outputs[at]);
    }
  }

  function choose(id, more = false) {
    const ids = new Set(composing.selection);
    if (more && ids.has(id)) {
      ids.delete(id);
    } else if (more) {
      ids.add(id);
    }
    composing.select(more ? ids : [id]);
    look(id);
  }

  function removeSelected() {
    if (composing.stream !== null) {
      edit((text) => withoutStream(text, composing.stream));
    } else if (composing.selection.size > 0) {
      const gone = [...composing.selection];
      if (edit((text) => withoutTasks(text, composing.selection))) {
        say(`Removed ${gone.join(", ")}.`);
        canvas.node.querySelector("[tabindex='0']")?.focus();
      }
    }
  }

  function paste(copy) {
    const { document: before } = composing;
    const shift = new Map(copy.tasks.map(({ id }) => [id, composing.places.get(id)]));
    let ids;
    const isDone = edit(function pasted(text) {
      const made = withCopies(text, copy);
      ids = made.ids;
      return made.text;
    });
    if (!isDone) {
      return;
    }
    const near = [...ids].filter(([old]) => shift.get(old) && taskOf(before, old));
    if (near.length > 0) {
      const places = new Map(composing.places);
      near.forEach(([, id]) => places.delete(id));
      near.forEach(([old, id]) => places.set(id, roomAt(shift.get(old), composing.heights.get(id), places, composing.heights)));
      composing.edit(composing.text, { places, group: "paste" });
    }
    composing.select(ids.values());
    look([...ids.values()].at(-1));
    say(`Pasted ${[...ids.values()].join(", ")}.`);
  }

  const actions = {
    go: ({ direction }, id) => step(id, direction, choose),
    look: ({ direction }, id) => step(id, direction, look),
    move: ({ direction: [across, down] }, id) => (composing.selection.size > 0 || composing.select([id]),
      composing.move(composing.selection, across * STEP, down * STEP, "move")),
    accept: (_, id) => (begun === null ? (composing.select([id]), focusTask()) : end(id)),
    toggle: (_, id) => choose(id, true),
    remove: removeSelected,
    cancel: () => (begun === null ? composing.select([]) : stop()),
    add: () => searchTypes(),
    connect: (_, id) => beginNext(id),
    arrange: () => composing.arrange(),
    closer: () => canvas.closer(1),
    farther: () => canvas.closer(-1),
    fit: () => canvas.fit(),
    selectAll: () => composing.select(composing.document.tasks.map((task) => task.id)),
    duplicate: () => composing.selection.size > 0 && paste(copied(composing.document, composing.selection)),
  };
  const WITHOUT_TASK = new Set(["add", "arrange", "closer", "farther", "fit", "selectAll", "cancel", "remove"]);

  function step(id, direction, then) {
    const next = neighbour(id, direction, composing.places);
    if (next === undefined) {
      return;
    }
    if (begun === null) {
      then(next);
    } else {
      look(next);
      const reasons = [...(begun.refusals.get(next)?.values() ?? [])];
      say(reasons.every((reason) => reason !== "") ? `${next}: ${reasons[0] ?? "it has no input."}` : `${next}: Enter connects.`);
    }
  }

  function key(event) {
    const action = actionOf(event);
    const id = event.target.closest("[data-task]")?.dataset.task;
    if (action !== null && (id !== undefined || WITHOUT_TASK.has(action.name))) {
      event.preventDefault();
      actions[action.name](action, id);
    }
  }

  function isOnCanvas() {
    return canvas.node.contains(document.activeElement) && composing.selection.size > 0;
  }

  return {
    connect,
    begun: () => begun,
    add: (type) => addAt(type, null),
    drop: function drop(type, event) {
      const point = canvas.pointOf(event);
      if (point !== null) {
        addAt(type, point);
      }
    },
    use: (made) => (canvas = made),
    on: {
      choose, begin, end, key, cancel: stop,
      chooseStream: (at) => (composing.selectStream(at), canvas.node.querySelector("svg").focus({ preventScroll: true })),
      clear: () => composing.select([]),
      configure: (id) => (composing.select([id]), focusTask()),
      move: (ids, across, down) => (composing.move(ids, across, down), choose([...ids].at(-1), ids.size > 1 ? undefined : false)),
    },
    /** Copy, cut and paste tasks as JSON, while the canvas has the focus. */
    listenToClipboard(signal) {
      for (const kind of ["copy", "cut"]) {
        document.addEventListener(kind, function copy(event) {
          if (isOnCanvas()) {
            event.preventDefault();
            event.clipboardData.setData("text/plain", printed(copied(composing.document, composing.selection)));
            if (kind === "cut") {
              removeSelected();
            }
          }
        }, { signal });
      }
      document.addEventListener("paste", function pasted(event) {
        const copy = canvas.node.contains(document.activeElement) ? copiedIn(event.clipboardData.getData("text/plain")) : null;
        if (copy !== null) {
          event.preventDefault();
          paste(copy);
        }
      }, { signal });
    },
  };
}

