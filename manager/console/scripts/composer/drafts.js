/**
 * Drafts: documents by name, kept in this browser for one tenant. They hold what a document holds, and never a key; those
 * of others on the same browser are not listed.
 */

const PREFIX = "braid:draft:";
const MOST = 50;
const LONGEST = 2_000_000;

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

function read(kept) {
  try {
    const { text, places, saved } = JSON.parse(kept);
    return { text, places: new Map(places), saved };
  } catch {
    return {};
  }
}
