/** The history of what is composed, to undo and redo. A history never changes; each step makes another. */

const MOST = 200;
/** Milliseconds in which edits of one group, such as keys typed into one field, are one step. */
const TOGETHER = 1500;

/** A history with one state. */
export function begun(state) {
  return { past: [], present: state, future: [], group: null, since: 0 };
}

/** A history with one more state. It replaces the present one if that is of the same group and has just been made. */
export function changed(history, state, { group = null, now = Date.now() } = {}) {
  const joins = group !== null && group === history.group && now - history.since < TOGETHER && history.past.length > 0;
  const past = joins ? history.past : [...history.past, history.present].slice(-MOST);
  return { past, present: state, future: [], group, since: now };
}

/** The history before the last step, or the same if there is none. */
export function undone(history) {
  if (history.past.length === 0) {
    return history;
  }
  return {
    past: history.past.slice(0, -1), present: history.past.at(-1), future: [history.present, ...history.future],
    group: null, since: 0,
  };
}

/** The history with the step that was undone last, or the same if there is none. */
export function redone(history) {
  if (history.future.length === 0) {
    return history;
  }
  return {
    past: [...history.past, history.present], present: history.future[0], future: history.future.slice(1),
    group: null, since: 0,
  };
}
