/** What hands do on the canvas: add, choose, move, connect, copy and remove tasks, by pointer and by keys. */

import { element, replace } from "../dom.js";
import { openPort, refusal, shortened } from "./connecting.js";
import {
  copied, freshId, withCopies, withoutStream, withoutTasks, withStream, withTask,
} from "./document.js";
import { actionOf } from "./keyboard.js";
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
        canvas.enter();
      }
    }
  }

  /** Add copied tasks, with the streams between them. */
  function paste(copy) {
    if (!edit((now) => now)) {
      return;
    }
    const { text, ids } = withCopies(composing.text, copy);
    const places = new Map(composing.places);
    const heights = new Map([...composing.heights]);
    // Copies of what is on the canvas stand beside it, and others where there is room.
    for (const [old, id] of ids) {
      if (places.has(old)) {
        heights.set(id, heights.get(old));
        places.set(id, roomAt(places.get(old), heights.get(old), places, heights));
      }
    }
    edit(() => text, { places });
    composing.select(ids.values());
    look([...ids.values()].at(-1));
    say(`Pasted ${[...ids.values()].join(", ")}.`);
  }

  /** Move tasks, which are selected then. */
  function moveBy(ids, across, down, group = null) {
    if ([...ids].some((id) => !composing.selection.has(id))) {
      composing.select(ids);
    }
    composing.move(ids, across, down, group);
    look([...ids].at(-1));
  }

  const actions = {
    go: ({ direction }, id) => step(id, direction, choose),
    look: ({ direction }, id) => step(id, direction, look),
    move: ({ direction: [across, down] }, id) =>
      moveBy(composing.selection.has(id) ? composing.selection : new Set([id]), across * STEP, down * STEP, "move"),
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
      move: moveBy,
    },
    remove: removeSelected,
    paste,
  };
}
