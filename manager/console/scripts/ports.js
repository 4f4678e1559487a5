/** Events at the ports of a task, of a trial or of a task that runs: how many, and the newest of them. */

import { element } from "./dom.js";
import { count, counted, time } from "./format.js";

/** The events at each of some ports. `words` say what they did there. */
export function ports(words, events) {
  return Object.entries(events).map(([port, shown]) => listed(`${words} ${port}`, shown));
}

/** Events `{count, newest, seen}` below a heading; `seen` has the times of the newest, if they are known. */
export function listed(heading, { count: all, newest, seen = [] }) {
  return [
    element("h4", {}, heading, ` · ${all === newest.length ? counted(all, "event") : `the last ${count(newest.length)} of ${counted(all, "event")}`}`),
    newest.length === 0 ? null : element("ol", { class: "port-events", tabindex: "0", "aria-label": "Events" },
      newest.map((event, place) => element("li", {},
        seen[place] ? element("span", { class: "faint" }, `${time(seen[place])} `) : null, element("code", {}, event)))),
  ];
}
