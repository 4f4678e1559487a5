/** Operations: the journal, newest first, live, with filters. */

import { api } from "../api.js";
import { element, field, named, replace, table } from "../dom.js";
import { count, seconds, time } from "../format.js";
import { refresh } from "../refresh.js";
import { every, stream } from "../live-updates.js";
import { guarded, remember } from "../reports.js";

const PATH = "/v1/operations";
const PART = 50;
const PACE = 60;
/** The kinds of operations in REST. */
export const KINDS = [
  "submit", "remove", "drain", "replace", "register source", "change source", "revoke source", "admit tenant", "set quota",
  "make key", "revoke key", "make broker credentials", "put secret", "remove secret", "discard dead letters",
  "replay dead letters", "restore backup", "move tasks", "rescale job", "repace job", "would repace job", "reconfigure",
  "replan", "adapt", "set policy", "choose", "publish module",
  "deprecate module", "vouch for module", "withdraw vouch", "set publishing", "quarantine tenant", "bound states",
  "put wheel", "remove wheel", "take over host", "hand over host", "machine waits",
  "admit machine", "drain machine", "undrain machine", "forget machine", "balance load",
  "add machine", "would add machine", "remove machine", "would remove machine", "scaling fails",
  "machine late", "machine slow",
  "put machine class", "remove machine class", "put image", "remove image",
  "make webhook", "rotate webhook", "revoke webhook", "try", "look at task",
];
const OF_DATAFLOWS = ["submit", "remove", "drain", "replace", "reconfigure", "replan", "adapt", "set policy", "choose"];

export const title = "Operations";

/** Show the page. */
export async function show(main, { parameters, session, signal, say }) {
  const kind = element("select", {},
    element("option", { value: "" }, "All"), KINDS.map((each) => element("option", { value: each }, each)));
  kind.value = KINDS.includes(parameters.kind) ? parameters.kind : "";
  const subject = element("input", { type: "search", value: parameters.subject ?? "", spellcheck: "false", autocomplete: "off" });
  const filters = element("form", { class: "toolbar", role: "search" },
    field("Kind", kind), field("Subject: a dataflow, source, module, tenant, key, secret, host, machine or image", subject),
    element("button", { class: "button", type: "submit" }, "Show"));
  const list = element("div", {});
  const older = element("button", { class: "button", type: "button", hidden: true }, "Show older");
  const isLive = element("span", { class: "faint" });
  const state = { shown: new Map(), next: null, turn: 0, details: new Map() };

  /** Read the newest operations; they join the shown ones, or replace them after a gap. */
  async function newest(anew) {
    state.turn += 1;
    const { turn } = state;
    const page = await part();
    if (turn !== state.turn) {
      return;
    }
    const follows = !anew && page.items.some((each) => state.shown.has(each.id));
    if (!follows) {
      state.shown.clear();
      state.next = page.next;
    }
    keep(page.items);
  }

  async function showOlder() {
    const { turn } = state;
    older.disabled = true;
    try {
      const page = await part(state.next);
      if (turn === state.turn) {
        state.next = page.next;
        keep(page.items);
        say(`${count(state.shown.size)} operations are shown.`);
      }
    } finally {
      older.disabled = false;
    }
  }

  function part(after) {
    return api.get(PATH, { query: { kind: kind.value, subject: subject.value.trim(), limit: PART, after }, signal });
  }

  function keep(items) {
    for (const each of items) {
      state.shown.set(each.id, each);
    }
    const rows = [...state.shown.values()].toSorted((one, two) => two.id - one.id);
    refresh(list, journal(rows, state.details, session.kind === "operator"));
    older.hidden = state.next === null;
  }

  async function changed() {
    remember("#/operations", { kind: kind.value, subject: subject.value.trim() });
    await newest(true);
    say(`${count(state.shown.size)} operations are shown.`);
  }

  function read() {
    return guarded(() => newest(false), main, signal);
  }

  kind.addEventListener("change", () => guarded(changed, main, signal));
  filters.addEventListener("submit", function submitted(event) {
    event.preventDefault();
    guarded(changed, main, signal);
  });
  older.addEventListener("click", () => guarded(showOlder, main, signal));
  replace(main, element("h1", {}, title), filters, element("p", {}, isLive), list, older);
  // An event triggers a read; regular reads find what was missed while the stream was down.
  await Promise.all([
    every(PACE, read, signal),
    stream("/v1/events", { on: {
      open: () => replace(isLive, "New operations appear as they happen."),
      closed: () => replace(isLive, "The event stream is down; new operations appear within a minute."),
      operation: read,
    }, signal }),
  ]);
}

function journal(rows, details, isOperator) {
  return table([
    { title: "When", cell: (row) => element("time", { datetime: row.at }, time(row.at)) },
    { title: "Kind", cell: (row) => row.kind },
    ...(isOperator ? [{ title: "Who", cell: (row) => named(row.who) }] : []),
    { title: "Subject", cell: subjectOf },
    { title: "Changed", cell: changes },
    { title: "Details", cell: (row) => kept(row, details) },
  ], rows, { caption: "The journal, newest first", empty: "No matching operations." });
}

function subjectOf(row) {
  return OF_DATAFLOWS.includes(row.kind) && !row.subject.includes(",")
    ? element("a", { href: `#/dataflows/${encodeURIComponent(row.subject)}` }, row.subject)
    : named(row.subject);
}

function changes(row) {
  const words = [
    [row.started, "started"], [row.reused, "reused"], [row.paused, "paused"],
  ].filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`);
  return words.length > 0 ? `tasks: ${words.join(", ")}` : "\u2013";
}

/** The same node each time, so that opened details stay open. */
function kept(row, details) {
  if (!details.has(row.id)) {
    details.set(row.id, detailsOf(row));
  }
  return details.get(row.id);
}

function detailsOf(row) {
  const facts = [
    ["Id", String(row.id)],
    ["Duration", seconds(row.seconds)],
    ["Jobs started", row.jobs_started.join(", ")],
    ["Jobs stopped", row.jobs_stopped.join(", ")],
    ["Note", row.note],
  ].filter(([, words]) => words !== "");
  return element("details", {},
    element("summary", { "aria-label": `Details of operation ${row.id}` }, "Details"),
    element("dl", { class: "facts" }, facts.map(([name, words]) => [element("dt", {}, name), element("dd", {}, words)])));
}
