/** What a dataflow that adapts has chosen, by which figures and why; choices by hand, and its policy. */

import { api } from "../../api.js";
import { element, replace, table } from "../../dom.js";
import { amount, cores, percent, time } from "../../format.js";
import { perSecond } from "../../graph/figures.js";
import { History, sparkline } from "../../graph/sparkline.js";
import { refresh } from "../../refresh.js";
import { choiceForm } from "./adaptation/choice.js";
import { policyForm } from "./adaptation/policy.js";
import { streamTable, taskTables } from "./adaptation/tables.js";

const MOST = 20;
/** For each: the field of the answer, a name, a function that makes text of a number, and a hint from the answer. */
const FIGURES = [
  { field: "value", name: "Value", words: amount, hint: () => "of what runs; 1 is the best" },
  { field: "cores_needed", name: "Cost", words: coresNeeded, hint: (answer) => `needed, of ${coresNeeded(answer.cores)}` },
  { field: "throughput", name: "Throughput", words: percent, hint: () => "of what comes in" },
  { field: "rate", name: "Rate", words: perSecond, hint: () => "events that come in" },
];

/** The section on adaptation; it is empty for a dataflow that does not adapt. */
export function adaptation({ path, id, signal, say, changed }) {
  const history = new History();
  const parts = Object.fromEntries(
    ["trouble", "figures", "tasks", "streams", "journal", "document"].map((name) => [name, element("div", {})]));
  const forms = [choiceForm, policyForm].map((made) => made({ path, signal, say, changed }));
  const node = element("section", {});
  const shown = new Map();
  let current;

  /** Make a part anew if its data has changed. */
  function update(name, data, made) {
    const text = JSON.stringify(data);
    if (shown.get(name) !== text) {
      shown.set(name, text);
      refresh(parts[name], made(data));
    }
  }

  async function look() {
    if (!isShown(current)) {
      return;
    }
    const [answer, journal] = await Promise.all([
      api.get(`${path}/adaptation`, { signal }),
      api.get("/v1/operations", { query: { kind: "adapt", subject: id, limit: MOST }, signal }),
    ]);
    history.note(Object.fromEntries(FIGURES.map(({ field }) => [field, answer[field]])));
    refresh(parts.figures, figures(answer, history));
    update("trouble", answer.trouble, troubleOf);
    update("tasks", answer.tasks, taskTables);
    update("streams", answer.streams, streamTable);
    update("journal", journal, journalTable);
    forms.forEach((form) => form.update(answer));
  }

  function show(dataflow) {
    if (isShown(dataflow) !== isShown(current)) {
      replace(node, isShown(dataflow) ? [
        element("h2", {}, "Adaptation"), parts.trouble, parts.figures, parts.tasks, parts.streams, parts.journal,
        forms.map((form) => form.node), parts.document,
      ] : null);
    }
    current = dataflow;
    forms.forEach((form) => (form.node.hidden = dataflow.state === "draining"));
    update("document", dataflow.dynamic, documentOf);
  }

  return { update: show, look, node };
}

function isShown(dataflow) {
  return Boolean(dataflow?.dynamic) && dataflow.state !== "removed";
}

function coresNeeded(number) {
  return `${cores(number)} cores`;
}

function troubleOf(trouble) {
  return trouble ? element("div", { class: "problem" },
    element("h3", {}, "It does not adapt"), element("p", {}, trouble)) : null;
}

function figures(answer, history) {
  return element("div", { class: "cards" }, FIGURES.map(function card({ field, name, words, hint }) {
    return element("div", { class: "card" },
      element("h3", {}, name),
      element("p", { class: "figure" }, words(answer[field])),
      sparkline(history.of(field), words),
      element("p", { class: "faint" }, hint(answer)));
  }));
}

function journalTable({ items, next }) {
  return table([
    { title: "When", cell: (each) => time(each.at) },
    { title: "Why", cell: (each) => element("bdi", {}, each.note) },
  ], items, {
    caption: next ? `The newest ${MOST} switches, with their reasons` : "Switches with their reasons, newest first",
    empty: "It has not switched yet.",
  });
}

function documentOf(dynamic) {
  return dynamic ? element("details", {},
    element("summary", {}, element("h3", {}, "Document with alternates and guards")),
    element("pre", { tabindex: "0", "aria-label": "The document with alternates and guards" }, JSON.stringify(dynamic, null, 2)),
  ) : null;
}
