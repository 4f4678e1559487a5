/** The newest events of a source that are kept, shown on request by a trial of a document that only reads it. */

import { api } from "../../api.js";
import { element, replace } from "../../dom.js";
import { counted } from "../../format.js";
import { button, worker } from "../../forms.js";

const MOST = 20;

/** The section. Operators ask for the owner. */
export function newestEvents({ name, owner }, { session, signal, say }) {
  const [wrong, list] = [element("div", {}), element("div", {})];
  const run = worker(wrong, signal);
  const document = {
    version: 1, name: "newest events",
    tasks: [{ id: "source", type: "source", config: { source: name } }, { id: "output", type: "output" }],
    streams: [{ from: "source", to: "output" }],
  };

  function look() {
    return run(async function ask() {
      const tenant = session.kind === "operator" ? owner : null;
      const answer = await api.post("/v1/try", { document, newest: MOST }, { query: { tenant }, signal });
      const task = answer.tasks.find(({ id }) => id === "source");
      const events = task?.outputs.out?.newest ?? [];
      replace(list, events.length > 0 ? shown(events)
        : element("p", { class: "empty" }, "No event is kept. Events are kept once a dataflow reads the source and something is sent."));
      say(counted(events.length, "event"));
    });
  }

  return element("section", { "aria-labelledby": "newest" },
    element("h2", { id: "newest" }, "Newest events"),
    element("div", { class: "toolbar" }, button("Show the newest events", look)), wrong, list);
}

function shown(events) {
  return element("ol", { class: "sample card", tabindex: "0", "aria-label": "Events, newest first" },
    events.toReversed().map((event) => element("li", {}, element("code", {}, event))));
}
