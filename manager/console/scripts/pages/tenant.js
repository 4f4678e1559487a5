/** One tenant: its quotas with what it uses, changed in a form; whether it may publish code; and ways on. For operators. */

import { api, Problem } from "../api.js";
import { element, named, replace } from "../dom.js";
import { button, worker } from "../forms.js";
import { count, time } from "../format.js";
import { LIMITS } from "../quotas.js";
import { wrongAt } from "../config-form.js";

export function title({ name }) {
  return `Tenant ${name}`;
}

/** Show the page. */
export async function show(main, { parameters, signal, say }) {
  const path = `/v1/tenants/${encodeURIComponent(parameters.name)}`;
  const [facts, quotas, wrong] = [element("div", {}), element("div", {}), element("div", {})];
  const run = worker(wrong, signal);

  function display(tenant) {
    replace(facts, element("dl", { class: "facts" },
      fact("Admitted", time(tenant.created)),
      fact("Publishes code", [tenant.publishes_code ? "yes " : "no ",
        button(tenant.publishes_code ? "Forbid it" : "Allow it", () => publish(!tenant.publishes_code), { style: "small" })]),
      tenant.quarantined_until ? fact("In quarantine until", time(tenant.quarantined_until)) : null));
    replace(quotas, quotaForm(tenant));
  }

  function quotaForm({ quota, uses }) {
    const limits = Object.keys(quota).map(function limitOf(name) {
      const input = element("input", { inputmode: "numeric", autocomplete: "off", value: quota[name], "aria-label": LIMITS[name] ?? name, id: `quota-${name}` });
      const cell = element("td", { class: "number" }, input);
      return { name, input, show: wrongAt(cell, input), row: element("tr", {},
        element("th", { scope: "row" }, LIMITS[name] ?? name), element("td", { class: "number" }, count(uses[name])), cell) };
    });

    function placed(errors) {
      const names = limits.map(({ name }) => `/${name}`);
      limits.forEach(({ name, show: showIt }) => showIt(errors.filter(({ pointer }) => pointer === `/${name}`)));
      return errors.filter(({ pointer }) => !names.includes(pointer));
    }

    function save(event) {
      event.preventDefault();
      return run(async function send() {
        const wanted = Object.fromEntries(limits.map(({ name, input }) => [name, numberIn(input.value)]));
        display(await api.put(`${path}/quota`, wanted, { signal }));
        say("The quota is changed.");
      }, placed);
    }

    return element("form", { on: { submit: save } },
      element("div", { class: "table" }, element("table", { class: "limits" },
        element("caption", {}, "What it may use"),
        element("thead", {}, element("tr", {}, ["What", "Used", "At most"].map((word, at) =>
          element("th", { scope: "col", class: at > 0 ? "number" : null }, word)))),
        element("tbody", {}, limits.map(({ row }) => row)))),
      element("button", { class: "button first", type: "submit" }, "Change the quota"));
  }

  function publish(code) {
    return run(async function send() {
      display(await api.put(`${path}/publishing`, { code }, { signal }));
      say(code ? "It may publish code." : "It may not publish code.");
    });
  }

  const tenants = await api.pages("/v1/tenants", { signal });
  const tenant = tenants.find(({ name }) => name === parameters.name);
  if (tenant === undefined) {
    throw new Problem(404, { title: "Not found", detail: `There is no tenant ${parameters.name}.` });
  }
  display(tenant);
  replace(main, element("h1", {}, "Tenant ", named(parameters.name)),
    element("p", { class: "toolbar" },
      element("a", { class: "button", href: `#/access?${new URLSearchParams({ tenant: parameters.name })}` }, "Keys, credentials and secrets"),
      element("a", { class: "button", href: "#/sources/new" }, "Add a source for it")),
    facts, wrong, quotas);
}

/** The number in a text; anything else goes to the service as it is, which says what is wrong. */
function numberIn(text) {
  return /^\d+$/.test(text.trim()) ? Number(text) : text;
}

function fact(word, value) {
  return [element("dt", {}, word), element("dd", {}, value)];
}
