/** The list of sources, live: how much comes, what is accepted and rejected, and who reads. */

import { api } from "../api.js";
import { badge, element, named, replace, table } from "../dom.js";
import { amount, count, counted, time } from "../format.js";
import { rates } from "../rates.js";
import { refresh } from "../refresh.js";
import { guarded } from "../reports.js";
import { every } from "../live-updates.js";

const PACE = 5;
const PART = 50;

export const title = "Sources";

/** Show the page. */
export async function show(main, { signal }) {
  const list = element("div", {});
  const more = element("button", { class: "button", type: "button", hidden: true, on: { click: showMore } }, "Show more");
  const rate = rates();
  let most = PART;
  let shown = "";

  async function look() {
    const sources = await api.pages("/v1/sources", { signal, most: most + 1 });
    const rows = sources.slice(0, most).map((source) => ({ ...source, rate: rate.of(source) }));
    const now = JSON.stringify(rows);
    if (now !== shown) {
      shown = now;
      refresh(list, listed(rows));
      more.hidden = sources.length <= most;
    }
  }

  function showMore() {
    most += PART;
    return guarded(look, main, signal);
  }

  replace(main, element("h1", {}, title),
    element("p", {}, "A source says where events come from, and which fields they have. Dataflows read sources."),
    element("div", { class: "toolbar" }, element("a", { class: "button first changing", href: "#/sources/new" }, "Add a source")),
    list, more);
  await every(PACE, look, signal);
}

/** The address of a source's page. */
export function addressOf(name) {
  return `#/sources/${encodeURIComponent(name)}`;
}

/** Where events come from, as far as the caller may know it. */
export function originOf({ connection }) {
  if (connection === null) {
    return null;
  }
  return connection.topic ? [connection.kind === "topic" ? null : `${connection.kind}: `, element("code", {}, connection.topic)]
    : connection.kind;
}

/** Whether events come, and why not; null where the caller may not know it. */
export function stateOf({ connection, dataflows, received }) {
  if (connection === null) {
    return null;
  }
  if (dataflows === 0) {
    return badge("warn", "nobody reads it");
  }
  const link = received?.link;
  if (!link) {
    return received ? badge("good", "receiving") : badge("warn", "not receiving yet");
  }
  const since = element("span", { class: "faint" }, " since ", time(link.since));
  const failed = [link.connected ? "Last failed " : "Failed ", time(link.error_at), ": ", named(link.error)];
  return element("div", {}, link.connected ? badge("good", "connected") : badge("bad", "not connected"), since,
    link.error ? element("div", {}, failed) : null);
}

function listed(sources) {
  return table([
    { title: "Source", cell: (each) => element("a", { href: addressOf(each.name) }, named(each.name)) },
    { title: "State", cell: stateOf },
    { title: "Events a second", number: true, cell: (each) => amount(each.rate) },
    { title: "Accepted", number: true, cell: (each) => count(each.received?.accepted) },
    { title: "Rejected", number: true, cell: rejectedOf },
    { title: "Read by", number: true, cell: (each) => counted(each.dataflows, "dataflow") },
    { title: "Visibility", cell: (each) => each.visibility },
    { title: "From", cell: originOf },
  ], sources, {
    caption: "Sources by name; their owners see what comes",
    empty: "No sources yet. Add one: it takes a minute, and you can try it with pasted events.",
  });
}

function rejectedOf({ name, received }) {
  return received?.rejected > 0
    ? element("a", { href: addressOf(name), "aria-label": `${count(received.rejected)} rejected of ${name}` }, count(received.rejected))
    : count(received?.rejected);
}
