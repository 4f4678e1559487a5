/** Replaces a dataflow's document, after it was explained what that would start. */

import { api } from "../../api.js";
import { element, field, problem, replace } from "../../dom.js";
import { cores, count, percent } from "../../format.js";
import { refresh } from "../../refreshing.js";

/** The button that opens the form, and the form. */
export function replacing({ path, tenant, isOperator, signal, say, changed }) {
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
    const written = element("textarea", { rows: 16, spellcheck: "false", value: JSON.stringify(current.document, null, 2) });
    const told = element("div", { role: "status" });
    const doing = element("button", { class: "button first", type: "button", disabled: true, on: { click: swap } }, "Replace");

    async function explain(event) {
      event.preventDefault();
      const text = written.value;
      await tried(async function ask() {
        const query = { tenant: isOperator ? tenant : null, start: current.start };
        const answer = await api.post("/v1/explain", text, { query, signal });
        replace(told, explained(answer));
        doing.disabled = written.value !== text;
      });
    }

    function swap() {
      doing.disabled = true;
      return tried(async function ask() {
        const answer = await api.put(path, written.value, { signal });
        close();
        say(`Revision ${answer.revision} was submitted.`);
        await changed();
      });
    }

    async function tried(ask) {
      try {
        await ask();
      } catch (error) {
        if (!signal.aborted) {
          replace(told, problem(error));
        }
      }
    }

    written.addEventListener("input", function edited() {
      // What was explained is not what stands there any more.
      doing.disabled = true;
      replace(told);
    });
    return element("form", { class: "card", on: { submit: explain } },
      element("h2", {}, "Replace the document"),
      field("Document", written, "Tasks that both documents have go on as they are, with what they remember."),
      told,
      element("div", { class: "toolbar" },
        element("button", { class: "button", type: "submit" }, "Explain"), doing,
        element("button", { class: "button", type: "button", on: { click: close } }, "Cancel")));
  }

  function tell(dataflow) {
    current = dataflow;
    if (dataflow.state !== shown) {
      shown = dataflow.state;
      refresh(buttons, ["removed", "draining"].includes(shown) ? null : opening);
    }
  }

  return { tell, buttons, node };
}

function explained({ reused, started, saving }) {
  const told = `${count(reused.length)} tasks run already, for this dataflow or for others, and go on; `
    + `${count(started.length)} start.`;
  return [
    element("p", {}, told),
    started.length === 0 ? null : element("p", {}, "It starts:"),
    started.length === 0 ? null : element("ul", {}, started.map((task) => element("li", {}, element("code", {}, task)))),
    element("p", { class: "faint" }, `What runs already saves ${percent(saving.work)} of the work, about ${cores(saving.cores)} cores.`),
  ];
}
