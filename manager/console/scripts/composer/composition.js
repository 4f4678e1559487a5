/** What is being composed: a text, the places of its tasks, and what is selected; with its history. */

import { begun, changed, redone, undone } from "./history.js";
import { portsOf } from "./connecting.js";
import { drawn, taskOf } from "./document.js";
import { arranged, heightOf, placed } from "./places.js";

/**
 * A composition.
 * @param {string} text the text that it begins with
 * @param {object} options `typeOf(name)` is the task type of a name, if it is known; `shown(how)` is called after each
 *   change, with `how.byHand` true if the text was typed
 */
export function composition(text, { typeOf, shown }) {
  let document = drawn(text) ?? drawn("{}");
  let previews = new Map();
  let ports = portsIn(document);
  let history = begun({ text, places: placed(document, new Map(), heights()) });
  let [selection, stream] = [new Set(), null];

  function portsIn({ tasks }) {
    return new Map(tasks.map((task) => [task.id, portsOf(task, typeOf(task.type), previews.get(task.id))]));
  }

  function heights() {
    return new Map([...ports].map(([id, sides]) => [id, heightOf(sides)]));
  }

  /** Read the present text; while it is no JSON, the last one that was stays on the canvas. */
  function settle(how = {}) {
    const found = drawn(history.present.text);
    if (found !== null) {
      document = found;
      ports = portsIn(document);
      const { places } = history.present;
      history = { ...history, present: { ...history.present, places: placed(document, places, heights()) } };
      selection = new Set([...selection].filter((id) => taskOf(document, id)));
      stream = stream !== null && document.streams.some(({ at }) => at === stream) ? stream : null;
    }
    shown(how);
  }

  return {
    get text() { return history.present.text; },
    get document() { return document; },
    /** Whether the text is JSON that the canvas can show. */
    get isDrawn() { return drawn(history.present.text) !== null; },
    get places() { return history.present.places; },
    get ports() { return ports; },
    get heights() { return heights(); },
    get previews() { return previews; },
    get selection() { return selection; },
    /** The place of the selected stream in the document, or null. */
    get stream() { return stream; },
    get canUndo() { return history.past.length > 0; },
    get canRedo() { return history.future.length > 0; },

    /** Make another text; edits of one `group` that follow each other are undone together. */
    edit(made, { group = null, byHand = false, renamed = null, places = history.present.places } = {}) {
      if (made === history.present.text && places === history.present.places) {
        return;
      }
      const kept = renamed === null ? places : new Map([...places].map(([id, at]) => [renamed.get(id) ?? id, at]));
      selection = renamed === null ? selection : new Set([...selection].map((id) => renamed.get(id) ?? id));
      history = changed(history, { text: made, places: kept }, { group });
      settle({ byHand });
    },

    /** Begin with another text, which cannot be undone. */
    open(made) {
      [selection, stream] = [new Set(), null];
      history = begun({ text: made, places: new Map() });
      settle();
    },

    undo() {
      history = undone(history);
      settle();
    },

    redo() {
      history = redone(history);
      settle();
    },

    /** Move tasks by so much. */
    move(ids, across, down, group) {
      const places = new Map(history.present.places);
      for (const id of ids) {
        const { x, y } = places.get(id);
        places.set(id, { x: Math.round(x + across), y: Math.round(y + down) });
      }
      this.edit(history.present.text, { places, group });
    },

    /** Lay all tasks out from left to right. */
    arrange() {
      this.edit(history.present.text, { places: arranged(document, heights()) });
    },

    select(ids) {
      [selection, stream] = [new Set(ids), null];
      shown({ bySelection: true });
    },

    selectStream(at) {
      [selection, stream] = [new Set(), at];
      shown({ bySelection: true });
    },

    /** Know what the service says about each task. */
    learn(known) {
      previews = known;
      ports = portsIn(document);
    },
  };
}
