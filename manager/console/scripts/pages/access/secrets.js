/** Secrets: their names, and forms that set and remove them. Their values are never shown. */

import { api } from "../../api.js";
import { wrongAt } from "../../config-form.js";
import { element, field, named, table } from "../../dom.js";
import { button, confirmed, worker } from "../../forms.js";
import { refresh } from "../../refresh.js";

/** The section on the secrets of a tenant; `query` names it for operators. */
export function secretSection(query, { signal, say }) {
  const [wrong, list] = [element("div", {}), element("div", {})];
  const name = element("input", { autocomplete: "off", spellcheck: "false", maxlength: 128, required: true });
  const value = element("textarea", { rows: 2, autocomplete: "off", spellcheck: "false", required: true });
  const [naming, holding] = [field("Name", name, "As sources and tasks name it."), field("Value", value, "Such as user:password, or a URL.")];
  const [showName, showValue] = [wrongAt(naming, name), wrongAt(holding, value)];
  const run = worker(wrong, signal);

  async function load() {
    const secrets = await api.pages("/v1/secrets", { query, signal });
    refresh(list, listed(secrets));
  }

  /** Show errors at their fields; returns the others. */
  function placed(errors) {
    const isName = ({ pointer }) => /^\/(path\/)?name$/.test(pointer);
    const isValue = ({ pointer }) => pointer === "/secret";
    showName(errors.filter(isName));
    showValue(errors.filter(isValue));
    return errors.filter((each) => !isName(each) && !isValue(each));
  }

  function put(event) {
    event.preventDefault();
    return run(async function send() {
      await api.put(pathOf(name.value), { secret: value.value }, { query, signal });
      say(`The secret ${name.value} is set.`);
      name.value = "";
      value.value = "";
      await load();
    }, placed);
  }

  function remove(secret) {
    return run(async function ask() {
      const body = element("p", {}, "Tasks and sources that name ", named(secret.name), " fail from then on.");
      if (await confirmed({ title: "Remove this secret?", body, action: "Remove", signal })) {
        await api.remove(pathOf(secret.name), { query, signal });
        say(`The secret ${secret.name} is removed.`);
        await load();
      }
    }, placed);
  }

  function listed(secrets) {
    return table([
      { title: "Secret", cell: (secret) => named(secret.name) },
      { title: "Actions", changing: true, cell: (secret) => button("Remove…", () => remove(secret), { style: "small danger", label: `Remove ${secret.name}` }) },
    ], secrets, { caption: "Secrets by name; their values are never shown", empty: "No secrets yet. Set one for each login that sources and tasks need." });
  }

  const node = element("section", { "aria-labelledby": "secrets" },
    element("h2", { id: "secrets" }, "Secrets"),
    element("p", {}, "Logins and URLs that sources and tasks name, so that no document holds them. Set one again to replace it."),
    wrong, list,
    element("form", { class: "secret-form changing", on: { submit: put } }, naming, holding,
      element("button", { class: "button", type: "submit" }, "Set the secret")));
  return { node, load };
}

function pathOf(name) {
  return `/v1/secrets/${encodeURIComponent(name)}`;
}
