/**
 * Drafts: documents by name, kept in this browser for one tenant. They hold what a document holds, and never a key; those
 * of others on the same browser are not listed.
 */

const PREFIX = "braid:draft:";
const MOST = 50;
const LONGEST = 2_000_000;
/** Milliseconds after an edit in which a draft is kept. */
const PAUSE = 500;

/** The drafts of somebody, the newest first, as `{name, text, saved}`; `storage` is the browser's. */
export function draftsOf(who, storage = window.localStorage) {
  const prefix = `${PREFIX}${who}:`;

  function all() {
    const found = [];
    for (let at = 0; at < storage.length; at += 1) {
      const key = storage.key(at);
      if (key.startsWith(prefix)) {
        found.push({ name: key.slice(prefix.length), ...read(storage.getItem(key)) });
      }
    }
    return found.filter((draft) => draft.text !== undefined).sort((one, other) => other.saved - one.saved);
  }

  /** Keep a draft; returns whether there was room for it. The oldest goes where there are too many. */
  function keep(name, { text, places }, now = Date.now()) {
    if (text.length > LONGEST) {
      return false;
    }
    all().filter((draft) => draft.name !== name).slice(MOST - 1).forEach((draft) => forget(draft.name));
    try {
      storage.setItem(prefix + name, JSON.stringify({ text, places: [...places], saved: now }));
      return true;
    } catch {
      // The browser's room is full, or it keeps nothing.
      return false;
    }
  }

  function forget(name) {
    storage.removeItem(prefix + name);
  }

  return { all, keep, forget };
}

/**
 * Keep a composition as a draft, a moment after each edit, under the name that it has by then; `shown(drafts)` is called
 * whenever they have changed.
 */
export function draftKeeper(drafts, composing, shown) {
  let [timer, draft, done] = [0, null, null];

  /** Keep it now, if something waits to be kept. */
  function now() {
    const { document: drawn, text, places } = composing;
    const waits = timer !== 0 && text !== done;
    window.clearTimeout(timer);
    timer = 0;
    if (!waits || drawn.tasks.length === 0 || !composing.canUndo) {
      return;
    }
    const name = drawn.name || "unnamed";
    if (draft !== null && draft !== name) {
      // It has another name by now.
      drafts.forget(draft);
    }
    draft = name;
    drafts.keep(name, { text, places });
    shown(drafts.all());
  }

  return {
    now,

    soon() {
      window.clearTimeout(timer);
      timer = window.setTimeout(now, PAUSE);
    },

    /** Begin with a draft of a name, or with something else. */
    begin(name) {
      now();
      draft = name;
    },

    /** Forget the draft of a text that was submitted. */
    end(text) {
      done = text;
      if (draft !== null) {
        drafts.forget(draft);
        shown(drafts.all());
      }
    },
  };
}

function read(kept) {
  try {
    const { text, places, saved } = JSON.parse(kept);
    return { text, places: new Map(places), saved };
  } catch {
    return {};
  }
}
