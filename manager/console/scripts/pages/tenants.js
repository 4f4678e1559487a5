/** The tenants with what they use of their quotas, and the form that admits one; for operators. */

import { api } from "../api.js";
import { wrongAt } from "../config-form.js";
import { element, field, replace } from "../dom.js";
import { worker } from "../forms.js";
import { addressOf, tenantQuotas } from "../quotas.js";

export const title = "Tenants";

/** Show the page. */
export async function show(main, { signal, navigate, say }) {
  const [list, wrong] = [element("div", {}), element("div", {})];
  const name = element("input", { autocomplete: "off", spellcheck: "false", required: true });
  const naming = field("Name of the new tenant", name, "It begins the topics of its sources.");
  const showName = wrongAt(naming, name);
  const run = worker(wrong, signal);

  function placed(errors) {
    showName(errors.filter(({ pointer }) => pointer === "/name"));
    return errors.filter(({ pointer }) => pointer !== "/name");
  }

  function admit(event) {
    event.preventDefault();
    return run(async function send() {
      const tenant = await api.post("/v1/tenants", { name: name.value }, { signal });
      say(`The tenant ${tenant.name} is admitted.`);
      navigate(addressOf(tenant.name));
    }, placed);
  }

  replace(main, element("h1", {}, title),
    element("p", {}, "A tenant has dataflows, sources and keys of its own, and sees nothing of others."),
    list, wrong,
    element("form", { class: "admission", on: { submit: admit } }, naming,
      element("button", { class: "button first", type: "submit" }, "Admit the tenant")));
  replace(list, tenantQuotas(await api.pages("/v1/tenants", { signal })));
}
