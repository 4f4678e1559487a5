/** Who may read a source: the fields of forms, and the form on its page. */

import { api } from "../../api.js";
import { problemOf } from "../../config-form.js";
import { element, field, replace } from "../../dom.js";
import { counted } from "../../format.js";
import { confirmed, worker } from "../../forms.js";

const CHOICES = { private: "Only its owner", named: "Its owner, and tenants that you name", public: "All tenants" };

/** The fields: `value()` is `{visibility, readers}`, `show(errors)` shows those at readers and returns the others. */
export function visibilityFields({ visibility, readers }) {
  const choices = element("fieldset", { class: "choices", on: { change: shown } }, element("legend", {}, "Readers"),
    Object.entries(CHOICES).map(([value, words]) => element("label", {},
      element("input", { type: "radio", name: "visibility", value, checked: value === visibility }), ` ${words}`)));
  const names = element("textarea", { rows: Math.min(8, 1 + (readers ?? []).length), spellcheck: "false", autocomplete: "off", value: (readers ?? []).join("\n") });
  const naming = field("Tenants that may read it", names, "One a line.");
  const wrong = element("div", { class: "wrong" });

  function chosen() {
    return choices.querySelector("input:checked").value;
  }

  function shown() {
    naming.hidden = chosen() !== "named";
  }

  function value() {
    const given = names.value.split("\n").map((each) => each.trim()).filter(Boolean);
    return { visibility: chosen(), readers: chosen() === "named" ? given : [] };
  }

  function show(errors) {
    const mine = errors.filter(({ pointer }) => /^\/(readers|visibility)/.test(pointer));
    replace(wrong, mine.map(problemOf));
    return errors.filter((each) => !mine.includes(each));
  }

  shown();
  return { node: element("div", {}, choices, naming, wrong), value, show };
}

/** The form on the page of a source; `changed()` is called after a change. */
export function visibilityForm(source, { path, signal, say, changed }) {
  const fields = visibilityFields(source);
  const wrong = element("div", {});
  const run = worker(wrong, signal);

  async function save(event) {
    event.preventDefault();
    await run(async function send() {
      const body = element("p", {}, "Dataflows of tenants that may no longer read it are removed.");
      if (!(await confirmed({ title: "Change who may read it?", body, action: "Change", signal }))) {
        return;
      }
      const { dataflows } = await api.put(`${path}/visibility`, fields.value(), { signal });
      say(`Changed; ${counted(dataflows, "dataflow")} removed.`);
      await changed();
    }, fields.show);
  }

  return element("form", { on: { submit: save } }, fields.node, wrong,
    element("button", { class: "button", type: "submit" }, "Save"));
}
