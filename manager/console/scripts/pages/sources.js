/** The list of sources, live: what was accepted and rejected of each, and the newest rejected events. */

import { api } from "../api.js";
import { element, named, replace, table } from "../dom.js";
import { count, time } from "../format.js";
import { refresh } from "../refresh.js";
import { guarded } from "../reports.js";
import { every } from "../live-updates.js";

const PACE = 5;
const PART = 50;

export const title = "Sources";

/** Show the page. */
export async function show(main, { signal }) {
  const [list, rejected] = [element("div", {}), element("section", {})];
  const more = element("button", { class: "button", type: "button", hidden: true, on: { click: showMore } }, "Show more");
  let most = PART;
  let shown = "";

  async function look() {
    const sources = await api.pages("/v1/sources", { signal, most: most + 1 });
    const now = JSON.stringify(sources);
    if (now !== shown) {
      shown = now;
      refresh(list, listed(sources.slice(0, most)));
      refresh(rejected, rejectedOf(sources.slice(0, most)));
      more.hidden = sources.length <= most;
    }
  }

  function showMore() {
    most += PART;
    return guarded(look, main, signal);
  }

  replace(main, element("h1", {}, title), list, more, rejected);
  await every(PACE, look, signal);
}

function listed(sources) {
  return table([
    { title: "Source", cell: (each) => named(each.name) },
    { title: "Visibility", cell: (each) => each.visibility },
    { title: "Topic", cell: topicOf },
    { title: "Format", cell: ({ connection }) => connection?.format?.kind ?? null },
    { title: "Dataflows", number: true, cell: (each) => count(each.dataflows) },
    { title: "Accepted", number: true, cell: (each) => count(each.received?.accepted) },
    { title: "Rejected", number: true, cell: (each) => count(each.received?.rejected) },
    { title: "Counted since", cell: (each) => (each.received ? time(each.received.since) : null) },
    { title: "Connection", cell: connectionOf },
  ], sources, { caption: "Sources by name; their owners see what was accepted and rejected", empty: "No sources yet." });
}

/** The topic of a source, or how its events are made; shown to its owner only. */
function topicOf({ connection }) {
  if (connection === null) {
    return null;
  }
  return connection.kind === "topic" ? element("code", {}, connection.topic) : connection.kind;
}

/** Whether a source from outside Braid is connected, since when, and why it was not; null for others. */
function connectionOf({ received }) {
  const link = received?.link;
  if (!link) {
    return null;
  }
  const state = [link.connected ? "connected since " : "not connected since ", time(link.since)];
  const failed = [link.connected ? "last failed " : "failed ", time(link.error_at), ": ", named(link.error)];
  return element("div", { class: "wide" }, ...state, ...(link.error ? ["; ", ...failed] : []));
}

function rejectedOf(sources) {
  const events = sources.flatMap((source) =>
    (source.received?.newest ?? []).map((each) => ({ ...each, source: source.name })));
  return events.length === 0 ? null : [
    element("h2", {}, "Rejected events"),
    element("p", {}, "They do not fit the schema of their source, and reached no dataflow."),
    table([
      { title: "Source", cell: (each) => named(each.source) },
      { title: "When", cell: (each) => time(each.at) },
      { title: "Reason", cell: (each) => element("div", { class: "wide" }, named(each.reason)) },
      { title: "Event", cell: (each) => element("code", {}, named(each.event)) },
    ], events, { caption: "The newest of each source" }),
  ];
}
