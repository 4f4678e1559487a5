/** Access: the API keys, broker credentials and secrets of a tenant. */

import { element, field, problem, replace } from "../dom.js";
import { remember, selectTenant } from "../reports.js";
import { brokerSection } from "./access/credentials.js";
import { keySection } from "./access/keys.js";
import { secretSection } from "./access/secrets.js";

export const title = "Access";

/** Show the page. Operators choose a tenant, which the address keeps. */
export async function show(main, { parameters, session, signal, say }) {
  const isOperator = session.kind === "operator";
  const place = element("div", {});
  const choice = isOperator ? await selectTenant(parameters.tenant, signal, "Operators") : null;

  async function showOf(tenant) {
    const on = { signal, say };
    const query = { tenant: isOperator ? tenant : null };
    const parts = [keySection(tenant, on), ...(tenant === null ? [] : [brokerSection(tenant, on), secretSection(query, on)])];
    replace(place, parts.map((part) => part.node));
    await Promise.all(parts.map(function load(part) {
      return part.load().catch(function failed(error) {
        // The other sections do not depend on it.
        if (!signal.aborted && error.status !== 401) {
          part.node.append(problem(error));
        }
      });
    }));
  }

  choice?.addEventListener("change", function change() {
    remember("#/access", { tenant: choice.value });
    showOf(choice.value || null);
  });
  replace(main, element("h1", {}, title),
    element("p", {}, "With what programs and devices get in. Whatever is shown once is kept nowhere: copy it then."),
    element("p", {}, "What programs can ask for is described on ", element("a", { href: "/docs" }, "the page of the API"), "."),
    choice === null ? null : element("div", { class: "toolbar" }, field("Of", choice)),
    place);
  await showOf(isOperator ? choice.value || null : session.tenant);
}
