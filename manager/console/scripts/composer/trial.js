/** The trial of the draft: events run through it before it is submitted, and show at each port of the selected task. */

import { api } from "../api.js";
import { element, field, named, problem, replace } from "../dom.js";
import { counted } from "../format.js";
import { listed, ports } from "../ports.js";

const ORIGINS = { pasted: "the events above", kept: "the newest events that are kept", none: "nothing, as no event is kept of this source" };

/**
 * The trial of a composition. `show` brings it up to date.
 * @param {object} composing the composition
 * @param {object} options `tenant()` that it is for, if the caller is an operator; `say(text)`, and `signal`
 */
export function trial(composing, { tenant, say, signal }) {
  const source = element("select", {});
  const events = element("textarea", { rows: 4, spellcheck: "false", autocomplete: "off" });
  const wrong = element("div", { class: "wrong", role: "status" });
  const begin = element("button", { class: "button", type: "button", on: { click: run } }, "Try");
  const [alert, result] = [element("div", {}), element("div", {})];
  // What was pasted for each source, by its task.
  const pasted = new Map();
  let tried = { text: null, tasks: new Map() };

  source.addEventListener("change", showPasted);
  events.addEventListener("input", function keep() {
    pasted.set(source.value, events.value);
    replace(wrong, reasonOf(events.value));
  });
  const node = element("details", { class: "card composer-trial changing" },
    element("summary", {}, "Try it on events"),
    field("Events are for", source),
    field("Events to try", events, "JSON, one on each line or in a list. Without any, the newest that are kept are taken."),
    wrong, begin, alert, result);

  function showPasted() {
    events.value = pasted.get(source.value) ?? "";
    replace(wrong, reasonOf(events.value));
  }

  async function run() {
    const known = sourcesIn(composing.document);
    const given = Object.fromEntries([...pasted].filter(([id, text]) => known.includes(id) && text.trim() !== ""));
    const bad = Object.keys(given).find((id) => reasonOf(given[id]) !== "");
    if (bad !== undefined || !composing.isDrawn) {
      replace(wrong, bad === undefined ? "The document is not JSON at the moment." : `${bad}: ${reasonOf(given[bad])}`);
      return;
    }
    const { text } = composing;
    const lists = Object.entries(given).map(([id, written]) => `${JSON.stringify(id)}: [${eventsIn(written).join(", ")}]`);
    begin.disabled = true;
    replace(alert);
    try {
      // The document and the events as they are written: numbers may be longer than the browser's.
      const body = `{"document": ${text}, "events": {${lists.join(", ")}}}`;
      const answer = await api.post("/v1/try", body, { query: { tenant: tenant() }, signal });
      tried = { text, tasks: new Map(answer.tasks.map((task) => [task.id, task])) };
      say(`Tried ${counted(answer.tasks.length, "task")}.`);
      show();
    } catch (error) {
      if (!signal.aborted && error.status !== 401) {
        replace(alert, problem(error));
      }
    } finally {
      begin.disabled = false;
    }
  }

  /** Bring it up to date with the composition. */
  function show() {
    const ids = sourcesIn(composing.document);
    if (ids.join("\n") !== [...source.options].map((option) => option.value).join("\n")) {
      const chosen = source.value;
      replace(source, ids.map((id) => element("option", { value: id }, id)));
      source.value = ids.includes(chosen) ? chosen : ids[0] ?? "";
      showPasted();
    }
    const [id] = composing.selection.size === 1 ? composing.selection : [null];
    const task = tried.tasks.get(id);
    if (tried.text === null || id === null) {
      replace(result, tried.text === null ? null : element("p", { class: "faint" }, "Select a task to see its events."));
      return;
    }
    const isOld = tried.text !== composing.text;
    replace(result, isOld ? element("p", { class: "faint" }, "The draft has changed since it was tried.") : null,
      task === undefined ? element("p", { class: "faint" }, named(id), " was not tried.") : shownTask(task));
  }

  return { node, show };
}

function sourcesIn({ tasks }) {
  return tasks.filter((task) => task.type === "source").map((task) => task.id);
}

/** The events in a text, each as it is written: lines, or a list. */
function eventsIn(text) {
  const written = text.trim();
  return written.startsWith("[") ? [written.slice(1, -1)].filter((inner) => inner.trim() !== "")
    : written.split("\n").filter((line) => line.trim() !== "");
}

/** What is wrong with a text of events; empty if nothing is. */
function reasonOf(text) {
  try {
    JSON.parse(`[${eventsIn(text).join(", ")}]`);
    return "";
  } catch (error) {
    return `That is not JSON: ${error.message}`;
  }
}

function shownTask(task) {
  return element("section", { "aria-label": "What the trial says of the task" },
    element("h3", {}, named(task.id)),
    task.not_run ? element("p", {}, `It was not run: ${task.not_run}.`) : null,
    task.lacks.length > 0 ? element("p", {}, `It lacks the events of ${task.lacks.join(", ")}, which did not run.`) : null,
    task.origin === null ? null : element("p", { class: "faint" }, `Tried on ${ORIGINS[task.origin]}.`),
    task.seen === null ? null : element("p", { class: "faint" }, `Its state has seen ${counted(task.seen, "event")}.`),
    ports("Entered at", task.inputs), ports("Left at", task.outputs),
    task.rejections.map((rejection) => listed(
      element("span", { class: "wrong" }, `Rejected at ${rejection.port}: ${rejection.reason}`), rejection.events)));
}
