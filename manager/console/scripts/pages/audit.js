/** Audit: who did what, from where, and what was refused, newest first, with filters and the command that exports it. */

import { badge, element, field, named, replace, table } from "../dom.js";
import { copyable } from "../forms.js";
import { count, time } from "../format.js";
import { refresh } from "../refresh.js";
import { listInParts, remember } from "../reports.js";

const MINUTE = 60000;
const OUTCOMES = { done: "good", refused: "bad" };

export const title = "Audit";

/** Show the page. The filters are in its address, with times in UTC, so that a link shows the same everywhere. */
export async function show(main, { parameters, session, signal, say }) {
  const by = element("input", { type: "search", value: parameters.by ?? "", maxlength: 300, spellcheck: "false", autocomplete: "off" });
  const [since, until] = ["since", "until"].map((name) =>
    element("input", { type: "datetime-local", value: localTime(parameters[name]) }));
  const [list, exporting] = [element("div", {}), element("div", {})];

  function asked() {
    return { by: by.value.trim(), since: universalTime(since.value), until: universalTime(until.value) };
  }

  const { more, read } = listInParts("/v1/audit", {
    word: "Show older",
    query: asked,
    show(entries, filters) {
      refresh(list, audited(entries, filters, session.kind === "operator"));
      refresh(exporting, copyable("Command that exports this", command(filters)));
      say(`${count(entries.length)} entries are shown.`);
    },
    main,
    signal,
  });

  function filter(event) {
    event.preventDefault();
    remember("#/audit", asked());
    return read();
  }

  replace(main, element("h1", {}, title),
    element("form", { class: "toolbar", role: "search", on: { submit: filter } },
      field("By: the id of an API key, or a person\u2019s subject", by), field("From", since), field("Until", until),
      element("button", { class: "button first", type: "submit" }, "Show")),
    list, more,
    element("h2", {}, "Export"),
    element("p", {}, "The command prints all of these entries as JSON lines."), exporting);
  await read();
}

/** The address of the page with only what one caller did; the rest of the filters stays. */
function addressOf(caller, filters) {
  const given = Object.entries({ ...filters, by: caller }).filter(([, word]) => word);
  return `#/audit?${new URLSearchParams(given)}`;
}

function audited(entries, filters, isOperator) {
  return table([
    { title: "When", cell: (entry) => element("time", { datetime: entry.at }, time(entry.at)) },
    ...(isOperator ? [{ title: "Who", cell: (entry) => named(entry.who) }] : []),
    { title: "By", cell: (entry) => element("a", { href: addressOf(entry.caller, filters) }, named(entry.caller_name || entry.caller)) },
    { title: "Address", cell: (entry) => named(entry.address) },
    { title: "Kind", cell: (entry) => entry.kind },
    { title: "Subject", cell: (entry) => named(entry.subject) },
    { title: "Outcome", cell: (entry) => badge(OUTCOMES[entry.outcome], entry.outcome) },
    { title: "Note", cell: (entry) => (entry.note ? named(entry.note) : null) },
  ], entries, {
    caption: "Who did what, newest first",
    empty: ["Nothing was done then by this caller. ", element("a", { href: "#/audit" }, "Show everything"), "."],
  });
}

function command({ by, since, until }) {
  const options = [["--by", by && `'${by.replaceAll("'", "'\\''")}'`], ["--from", since], ["--to", until]];
  return ["braid audit --lines", ...options.filter(([, word]) => word).map((option) => option.join(" "))].join(" ");
}

/** A time in UTC as a control for times has it, in the reader's time zone; empty if it is none. */
function localTime(text) {
  const at = new Date(text ?? "");
  return Number.isNaN(at.getTime()) ? "" : new Date(at - at.getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
}

function universalTime(local) {
  return local === "" ? "" : new Date(local).toISOString();
}
