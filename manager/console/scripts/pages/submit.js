/** Submission of a dataflow: check its document, preview the effects, submit. */

import { api, Problem, Unreachable, newKey } from "../api.js";
import { notJson, refused } from "../document-problems.js";
import { element, field, named, problem, replace, table } from "../dom.js";
import { count, time } from "../format.js";
import { read } from "../json-positions.js";
import { counted } from "../plurals.js";
import { predictedFigures } from "../saved.js";

export const title = "Submit a dataflow";

const STARTS = [["latest", "from now on"], ["earliest", "from the earliest events that are kept"]];

export async function show(main, { session, signal, say }) {
  const form = made(session);
  const result = element("div", { id: "result" });
  // One idempotency key for each attempt: sent again after a lost answer, it is the same submission.
  let attempt = null;

  function changed() {
    attempt = null;
    form.submit.disabled = true;
    replace(result);
  }

  async function explain() {
    changed();
    const text = form.document.value;
    const { error } = read(text);
    if (error) {
      replace(result, notJson(text, error));
      say("The document is not JSON.");
      return;
    }
    await asked(async function ask() {
      const query = queryOf(form);
      const explained = await api.post("/v1/explain", text, { query, signal });
      if (text === form.document.value) {
        attempt = { text, query, key: newKey() };
        form.submit.disabled = false;
        replace(result, explanation(explained));
        say("Explained; ready to submit.");
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
      replace(result, done(submitted));
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
      // If it may have been done, it can be sent again with the same key.
      const again = error instanceof Unreachable || (error instanceof Problem && (error.isTransient || error.status >= 500));
      form.submit.disabled = !(again && attempt !== null);
      replace(result, error.errors?.length ? refused(form.document.value, error) : problem(error));
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
      form.tenant ? field("Tenant", form.tenant) : null,
      field("Document", form.document, "JSON. Paste it here, or choose a file."),
      field("From a file", form.file),
      field("Start", form.start),
      element("div", { class: "toolbar" }, form.explain, form.submit)),
    result);
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

function explanation(result) {
  const { saving } = result;
  return element("section", { "aria-labelledby": "explained" },
    element("h2", { id: "explained" }, "Preview"),
    element("div", { class: "cards" },
      figure("Tasks reused", `${count(saving.tasks)} of ${count(saving.of_tasks)}`),
      predictedFigures(saving).map(([words, number]) => figure(words, number))),
    saving.work_by_sharing === null ? null : element("p", { class: "faint" }, basisOf(saving.work_rests_on)),
    result.collapsed.length > 0 ? [
      element("h3", {}, "Equivalent tasks, which run as one"),
      element("ul", {}, result.collapsed.map(function group(tasks) {
        return element("li", {}, listed(tasks));
      })),
    ] : null,
    element("h3", {}, "Reused"),
    table([
      { title: "Task", cell: (task) => named(task.id) },
      { title: "Type", cell: (task) => task.type },
      { title: "History since", cell: (task) => (task.since ? time(task.since) : "none needed") },
    ], result.reused, { caption: "Tasks that already run", empty: "No running task can be reused." }),
    element("h3", {}, "Started"),
    result.started.length > 0 ? element("p", {}, listed(result.started)) : element("p", { class: "empty" }, "No tasks."));
}

/** The basis of the estimate. */
function basisOf({ measured, type, assumed }) {
  return `Work is the number of events times their cost at each task. Costs of ${counted(measured + type + assumed, "task")}: `
    + `${count(measured)} measured, ${count(type)} by type, ${count(assumed)} assumed.`;
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
      `: ${counted(dataflow.reused.length, "task")} reused, ${count(dataflow.started.length)} started.`));
}
