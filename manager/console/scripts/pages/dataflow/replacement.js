/** The replacement of a dataflow's document, after a preview of what would start. */

import { api } from "../../api.js";
import { element, field, problem, replace } from "../../dom.js";
import { count } from "../../format.js";
import { counted } from "../../plurals.js";
import { refresh } from "../../refresh.js";
import { predictedFigures } from "../../saved.js";

/** The button that opens the form, and the form. */
export function replacement({ path, tenant, isOperator, signal, say, changed }) {
  const opening = element("button", {
    class: "button", type: "button", "aria-expanded": "false", on: { click: open },
  }, "Replace…");
  const buttons = element("div", {});
  const node = element("div", {});
  let current;
  let shown = "";

  function open() {
    if (node.childElementCount > 0) {
      close();
      return;
    }
    opening.setAttribute("aria-expanded", "true");
    const form = formOf();
    replace(node, form);
    form.querySelector("textarea").focus();
  }

  function close() {
    replace(node);
    opening.setAttribute("aria-expanded", "false");
    opening.focus();
  }

  function formOf() {
    // A dataflow that adapts is replaced as it was written, or it would adapt no more.
    const value = JSON.stringify(current.dynamic ?? current.document, null, 2);
    const written = element("textarea", { rows: 16, spellcheck: "false", value });
    const result = element("div", { role: "status" });
    const submitting = element("button", { class: "button first", type: "button", disabled: true, on: { click: swap } }, "Replace");

    async function explain(event) {
      event.preventDefault();
      const text = written.value;
      await tried(async function ask() {
        const query = { tenant: isOperator ? tenant : null, start: current.start };
        const answer = await api.post("/v1/explain", text, { query, signal });
        replace(result, explained(answer));
        submitting.disabled = written.value !== text;
      });
    }

    function swap() {
      submitting.disabled = true;
      return tried(async function ask() {
        const answer = await api.put(path, written.value, { signal });
        close();
        say(`Submitted revision ${answer.revision}.`);
        await changed();
      });
    }

    async function tried(ask) {
      try {
        await ask();
      } catch (error) {
        if (!signal.aborted) {
          replace(result, problem(error));
        }
      }
    }

    written.addEventListener("input", function edited() {
      // The explanation is of an older text.
      submitting.disabled = true;
      replace(result);
    });
    return element("form", { class: "card", on: { submit: explain } },
      element("h2", {}, "Replace the document"),
      field("Document", written, "Tasks that are in both documents keep running, with their state."),
      result,
      element("div", { class: "toolbar" },
        element("button", { class: "button", type: "submit" }, "Explain"), submitting,
        element("button", { class: "button", type: "button", on: { click: close } }, "Cancel")));
  }

  function update(dataflow) {
    current = dataflow;
    if (dataflow.state !== shown) {
      shown = dataflow.state;
      refresh(buttons, ["removed", "draining"].includes(shown) ? null : opening);
    }
  }

  return { update, buttons, node };
}

function explained({ reused, started, saving }) {
  const summary = `${counted(reused.length, "task")} already ${reused.length === 1 ? "runs" : "run"}; `
    + `${count(started.length)} would start.`;
  return [
    element("p", {}, summary),
    started.length === 0 ? null : element("p", {}, "New tasks:"),
    started.length === 0 ? null : element("ul", {}, started.map((task) => element("li", {}, element("code", {}, task)))),
    element("p", { class: "faint" },
      `${predictedFigures(saving).map(([words, number]) => `${words}: ${number}`).join(". ")}.`),
  ];
}
