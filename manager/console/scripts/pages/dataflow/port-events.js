/** The newest events at the ports of a running task, as long as somebody looks. */

import { api } from "../../api.js";
import { element, named, problem, replace } from "../../dom.js";
import { every } from "../../live-updates.js";
import { ports } from "../../ports.js";

const PACE = 2;

/**
 * The live events of a task. It looks every few seconds until `close()`, or until the signal is aborted; `look()` looks
 * at once.
 * @param {object} options the `path` of the dataflow in REST, the `task` by its id, and `signal`
 */
export function portEvents({ path, task, signal }) {
  const closing = new AbortController();
  const ends = AbortSignal.any([signal, closing.signal]);
  const shown = element("div", {}, element("p", { class: "faint" }, "Waiting for events."));
  const node = element("section", { class: "card", "aria-label": `Events of ${task}` },
    element("h3", {}, "Events of ", named(task)), shown);
  let written = "";

  async function look() {
    const answer = await api.get(`${path}/tasks/${encodeURIComponent(task)}/events`, { signal: ends }).catch(failed);
    const data = JSON.stringify(answer);
    if (data === written) {
      return;
    }
    written = data;
    const scrolled = [...node.querySelectorAll("ol")].map((list) => list.scrollTop);
    replace(shown, answer.waits ? element("p", { class: "faint" }, "Waiting for the next batch of its job.")
      : [ports("Entered at", answer.inputs), ports("Left at", answer.outputs)]);
    node.querySelectorAll("ol").forEach((list, place) => (list.scrollTop = scrolled[place] ?? list.scrollHeight));
  }

  function failed(error) {
    if (!ends.aborted) {
      replace(shown, problem(error));
      written = "";
    }
    throw error;
  }

  // Why it ended is shown by then.
  every(PACE, look, ends).catch(() => null);
  return { node, look, close: () => closing.abort() };
}
