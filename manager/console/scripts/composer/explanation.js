/** What the service says of the document while it is drawn: of each task whether it runs, and every problem. */

import { api } from "../api.js";
import { cores, hour } from "../format.js";
import { read } from "../json-positions.js";

/** Milliseconds without an edit after which the service is asked. */
const PAUSE = 350;

/**
 * Ask the service about a text, once nobody has edited it for a moment; a newer text ends the question before.
 * @param {object} on `answered(text, answer)`, and `failed(text, error)`
 */
export function explainer({ on, signal }) {
  let timer = 0;
  let asking = new AbortController();
  signal.addEventListener("abort", stop);

  function stop() {
    window.clearTimeout(timer);
    asking.abort();
  }

  async function ask(text, query) {
    const { signal: asked } = asking;
    try {
      const answer = await api.post("/v1/explain", text, { query: { ...query, draft: true }, signal: asked });
      if (!asked.aborted) {
        on.answered(text, answer);
      }
    } catch (error) {
      if (!asked.aborted) {
        on.failed(text, error);
      }
    }
  }

  /** Ask about a text soon, or at once. */
  function explain(text, query, { soon = true } = {}) {
    stop();
    asking = new AbortController();
    if (!signal.aborted && read(text).error === null) {
      timer = window.setTimeout(ask, soon ? PAUSE : 0, text, query);
    }
  }

  return { explain, stop };
}

/** Problems of tasks that are only not connected yet. */
const LOOSE = new Set(["fruitless-task", "unreached-task", "unfed-port"]);

/**
 * The state of each task, `{kind, words, more}`: it `runs`, `starts`, is `invalid`, or is `open` for lack of something.
 * @param {object} document as `drawn` has it
 * @param {object|null} answer of `POST /v1/explain` for this document
 */
export function statesOf(document, answer) {
  const known = new Map((answer?.tasks ?? []).map((task) => [task.id, task]));
  const wrong = problemsByTask(document, answer);
  return new Map(document.tasks.map((task) => [task.id, stateOf(known.get(task.id), wrong.get(task.id) ?? [])]));
}

/** The problems of each task by its id; those of no task under null. */
export function problemsByTask({ tasks }, answer) {
  const ids = new Map(tasks.map((task) => [String(task.at), task.id]));
  const grouped = new Map();
  for (const problem of answer?.problems ?? []) {
    const [, list, at] = problem.pointer.split("/");
    const id = list === "tasks" ? ids.get(at) ?? null : null;
    grouped.set(id, [...(grouped.get(id) ?? []), problem]);
  }
  return grouped;
}

/** The places of the streams that have a problem. */
export function wrongStreams(answer) {
  return new Set((answer?.problems ?? []).map((problem) => problem.pointer.split("/"))
    .filter(([, list, at]) => list === "streams" && at !== undefined).map(([, , at]) => Number(at)));
}

/** The state of a task of which nothing is known yet. */
export const OPEN = { kind: "open", words: "", more: "not complete yet" };

function stateOf(task, problems) {
  const real = problems.filter((each) => !LOOSE.has(each.code));
  if (real.length > 0) {
    const missing = real.filter((each) => each.code === "missing-field").map((each) => each.pointer.split("/").at(-1));
    const words = missing.length === real.length ? `needs ${missing.join(", ")}` : real[0].message;
    return { kind: "invalid", words, more: real.map((each) => each.message).join("; ") };
  }
  if (task?.runs === true) {
    const words = task.since ? `runs since ${hour(task.since)}` : "runs already";
    return { kind: "runs", words, more: `${words}; it costs nothing more` };
  }
  if (task?.runs === false) {
    const words = `new · ${cores(task.cores)} cores`;
    return { kind: "starts", words, more: `starts new, with ${cores(task.cores)} cores (estimate)` };
  }
  const words = "waits for a stream";
  return problems.length > 0 ? { kind: "open", words, more: words } : OPEN;
}
