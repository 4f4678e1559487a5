/** Submitting a dataflow: its document is checked, what it would do is explained, and then it is submitted. */

import { api, Problem, Unreachable } from "../api.js";
import { element, field, named, problem, replace, table } from "../dom.js";
import { cores, count, percent, time } from "../format.js";
import { around, placeOf, read } from "../places.js";

export const title = "Submit a dataflow";

const STARTS = [["latest", "at what comes from now on"], ["earliest", "at the earliest events that are kept"]];

export async function show(main, { session, signal, say }) {
  const form = made(session);
  const told = element("div", { id: "told" });
  // One key for one attempt: sent again after a broken answer, it is the same submission.
  let attempt = null;

  function changed() {
    attempt = null;
    form.submit.disabled = true;
    replace(told);
  }

  async function explain() {
    changed();
    const text = form.document.value;
    const { error } = read(text);
    if (error) {
      replace(told, notJson(text, error));
      say("The document is not JSON.");
      return;
    }
    await asked(async function ask() {
      const query = queryOf(form);
      const explained = await api.post("/v1/explain", text, { query, signal });
      if (text === form.document.value) {
        attempt = { text, query, key: newKey() };
        form.submit.disabled = false;
        replace(told, explanation(explained));
        say("Explained. It can be submitted.");
      }
    });
  }

  async function submit(event) {
    event.preventDefault();
    if (attempt === null) {
      await explain();
      return;
    }
    const { text, query, key } = attempt;
    form.submit.disabled = true;
    await asked(async function ask() {
      const headers = { "Idempotency-Key": key };
      const submitted = await api.post("/v1/dataflows", text, { query, headers, signal });
      attempt = null;
      replace(told, done(submitted));
      say("Submitted.");
    });
  }

  async function asked(ask) {
    try {
      await ask();
    } catch (error) {
      if (signal.aborted || error.status === 401) {
        return;
      }
      // What may have been done is asked for again under the same key.
      const again = error instanceof Unreachable || (error instanceof Problem && (error.passing || error.status >= 500));
      form.submit.disabled = !(again && attempt !== null);
      replace(told, error.errors?.length ? refused(form.document.value, error) : problem(error));
    }
  }

  for (const control of [form.document, form.tenant, form.start].filter(Boolean)) {
    control.addEventListener("input", changed);
  }
  form.explain.addEventListener("click", explain);
  form.file.addEventListener("change", async function readFile() {
    const [file] = form.file.files;
    if (file) {
      form.document.value = await file.text();
      changed();
    }
  });
  replace(main,
    element("h1", {}, title),
    element("form", { on: { submit } },
      form.tenant ? field("For tenant", form.tenant) : null,
      field("Document", form.document, "JSON, as the reference of documents has it. Paste it here, or choose a file."),
      field("From a file", form.file),
      field("Begins", form.start),
      element("div", { class: "toolbar" }, form.explain, form.submit)),
    told);
}

function made(session) {
  return {
    tenant: session.kind === "operator"
      ? element("input", { name: "tenant", autocomplete: "off", required: true, maxlength: 63 }) : null,
    document: element("textarea", { name: "document", rows: 16, spellcheck: "false", required: true }),
    file: element("input", { type: "file", name: "file", accept: ".json,application/json" }),
    start: element("select", { name: "start" }, STARTS.map(function option([value, words]) {
      return element("option", { value }, words);
    })),
    explain: element("button", { class: "button", type: "button" }, "Explain"),
    submit: element("button", { class: "button first", type: "submit", disabled: true }, "Submit"),
  };
}

function queryOf(form) {
  return { tenant: form.tenant?.value.trim(), start: form.start.value };
}

function newKey() {
  // `randomUUID` is missing where the console is served without TLS.
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), function hexadecimal(byte) {
    return byte.toString(16).padStart(2, "0");
  }).join("");
}

function explanation(told) {
  const { saving } = told;
  return element("section", { "aria-labelledby": "explained" },
    element("h2", { id: "explained" }, "What it would do"),
    element("div", { class: "cards" },
      figure("Tasks reused", `${count(saving.tasks)} of ${count(saving.of_tasks)}`),
      figure("Work saved, predicted", percent(saving.work)),
      figure("Cores saved, predicted", cores(saving.cores))),
    saving.work === null ? null : element("p", { class: "faint" }, restsOn(saving.work_rests_on)),
    told.collapsed.length > 0 ? [
      element("h3", {}, "Equivalent tasks that would run as one"),
      element("ul", {}, told.collapsed.map(function group(tasks) {
        return element("li", {}, listed(tasks));
      })),
    ] : null,
    element("h3", {}, "Reused"),
    table([
      { title: "Task", cell: (task) => named(task.id) },
      { title: "Type", cell: (task) => task.type },
      { title: "With history since", cell: (task) => (task.since ? time(task.since) : "none needed") },
    ], told.reused, { caption: "Tasks that run already", empty: "Nothing that runs already can be reused." }),
    element("h3", {}, "Started"),
    told.started.length > 0 ? element("p", {}, listed(told.started)) : element("p", { class: "empty" }, "Nothing."));
}

/** How well the work is known. */
function restsOn({ measured, type, assumed }) {
  return `Work is events times what one costs at each task: measured for ${count(measured)} tasks, `
    + `by their type for ${count(type)}, assumed for ${count(assumed)}.`;
}

function figure(words, number) {
  return element("div", { class: "card" }, element("p", { class: "figure" }, number), element("p", {}, words));
}

function listed(names) {
  return names.flatMap(function comma(name, index) {
    return index === 0 ? [named(name)] : [", ", named(name)];
  });
}

function done(dataflow) {
  return element("section", { "aria-labelledby": "done" },
    element("h2", { id: "done" }, "Submitted"),
    element("p", {},
      element("a", { href: `#/dataflows/${encodeURIComponent(dataflow.id)}` }, named(dataflow.name)),
      `: ${count(dataflow.reused.length)} tasks reused, ${count(dataflow.started.length)} started.`));
}

function notJson(text, error) {
  return element("div", { class: "problem", role: "alert" },
    element("h2", {}, "The document is not JSON"),
    found(text, [error.at, error.at + 1], error.message, ""));
}

function refused(text, error) {
  const { places } = read(text);
  return element("div", { class: "problem", role: "alert" },
    element("h2", {}, error.title),
    element("ul", {}, error.errors.map(function one(each) {
      const outside = /^\/(query|path|header)(\/|$)/.test(each.pointer) && !places.has(each.pointer);
      return element("li", {}, outside
        ? [element("code", {}, each.pointer), `: ${each.message} `, element("div", { class: "faint" }, each.remedy)]
        : found(text, placeOf(places, each.pointer), each.message, each.remedy, each.pointer));
    })));
}

function found(text, place, message, remedy, pointer = "") {
  const { line, column, before, within, after } = around(text, place);
  return [
    element("p", {}, `Line ${line}, column ${column}`, pointer ? [" (", element("code", {}, pointer), ")"] : null, `: ${message}`),
    remedy ? element("p", { class: "faint" }, remedy) : null,
    element("pre", { tabindex: 0, role: "region", "aria-label": `The document at line ${line}` },
      before, element("mark", {}, within), after),
  ];
}
