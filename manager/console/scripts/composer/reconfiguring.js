/** The change of a running dataflow to the document that is drawn: its tasks keep their states. */

import { api } from "../api.js";
import { element, named, problem, replace } from "../dom.js";
import { CHANGED } from "./conflict.js";
import { isChangeable } from "../pages/dataflow/reconfiguration.js";
import { scopeOf, showPreview } from "../pages/dataflow/reconfiguration/preview.js";

const REPLACEABLE = "What cannot change while it runs can be replaced; tasks below what differs then begin anew.";

/**
 * The change of a dataflow, with what it would do to each task.
 * @param {object} about the `dataflow` as it was opened, its `path` in REST, the `known` task types by name, `text()` for
 *   the document as it is, `headers()` for the document that it was made of, `begun(document)` to be called once it
 *   begins, `changed(error, again)` if there is another document by now, `signal` and `say(text)`
 * @returns {{button, node, reset}} `reset()` takes back what was previewed
 */
export function reconfiguring({ dataflow, path, known, text, headers, begun, changed, signal, say }) {
  const route = `${path}/reconfigurations`;
  const [result, wrong] = [element("div", {}), element("div", {})];
  const button = element("button", { class: "button changing", type: "button", disabled: true, on: { click: preview } }, "Change while it runs…");

  function preview() {
    return tried(async function ask() {
      const body = { document: JSON.parse(text()) };
      const asked = text();
      const answer = await api.post(route, body, { query: { dry_run: true }, headers: headers(), signal });
      if (asked !== text()) {
        return;
      }
      const title = element("h2", { id: "composer-change", tabindex: "-1" }, "What would change");
      showPreview(result, title, scopeOf(answer, dataflow, { known }), "Apply", (key) => apply(body, key));
    });
  }

  function apply(body, key) {
    return tried(async function begin() {
      const { id } = await api.post(route, body, { headers: { ...headers(), "Idempotency-Key": key }, signal });
      begun(body.document);
      const link = element("a", { href: `#/dataflows/${encodeURIComponent(dataflow.id)}?tab=changes` }, named(dataflow.name));
      replace(result, element("section", { class: "card" }, element("p", {}, link, ` changes: reconfiguration ${id} has begun.`)));
      say(`Reconfiguration ${id} has begun.`);
      link.focus();
    });
  }

  async function tried(act) {
    replace(wrong);
    try {
      await act();
    } catch (error) {
      if (error.status === CHANGED) {
        reset();
        changed(error, preview);
      } else if (!signal.aborted && error.status !== 401) {
        // What was previewed stays, to be applied again if the answer was lost.
        replace(wrong, problem(error), error.status < 500 ? element("p", {}, REPLACEABLE) : null);
      }
    }
  }

  function reset() {
    replace(result);
    replace(wrong);
  }

  return { button, node: [wrong, result], reset };
}

/** Whether a dataflow can be changed to a drawn document: what plans or adapts it is changed on its own page. */
export function isPlain(dataflow) {
  return !dataflow.dynamic && !dataflow.pipeline && isChangeable(dataflow);
}
