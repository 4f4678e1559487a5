/** The form that replaces the policy of a dataflow, with problems shown at their place in the text. */

import { api } from "../../../api.js";
import { notJson, refused } from "../../../document-problems.js";
import { element, field, problem, replace } from "../../../dom.js";
import { onlyLooks } from "../../../forms.js";
import { read } from "../../../json-positions.js";

/** The form; it is made anew when the policy has changed. */
export function policyForm({ path, signal, say, changed }) {
  const node = element("div", {});
  let shown = "";

  function formOf(value) {
    const written = element("textarea", { rows: 12, spellcheck: "false", readonly: onlyLooks(), value });
    const result = element("div", {});

    async function send(event) {
      event.preventDefault();
      const text = written.value;
      const { error } = read(text);
      if (error) {
        replace(result, notJson(text, error));
        return;
      }
      try {
        await api.put(`${path}/policy`, text, { signal });
        replace(result);
        say("The policy is replaced.");
        await changed();
      } catch (refusal) {
        if (!signal.aborted) {
          replace(result, refusal.errors?.length ? refused(text, refusal) : problem(refusal));
        }
      }
    }

    written.addEventListener("input", () => replace(result));
    return element("form", { class: "card", "aria-label": "Replace the policy", on: { submit: send } },
      field("Policy", written, "What runs stays, until the new policy asks for something else."),
      result,
      element("div", { class: "toolbar changing" }, element("button", { class: "button", type: "submit" }, "Replace the policy")));
  }

  function update({ policy }) {
    const text = JSON.stringify(policy, null, 2);
    if (text !== shown) {
      shown = text;
      replace(node, formOf(text));
    }
  }

  return { update, node };
}
