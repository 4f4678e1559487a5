/** The page of one version of a module: what is known of it, its form, and the other versions. */

import { api } from "../api.js";
import { element, named, replace, table } from "../dom.js";
import { seconds, time } from "../format.js";
import { addressOf, stateOf } from "./modules.js";

const CODE = "code";

/** The page's title. */
export function title({ name, version }) {
  return `${name}@${version}`;
}

/** Show the page. */
export async function show(main, { parameters, signal }) {
  const { name, version, tenant } = parameters;
  const path = `/v1/modules/${encodeURIComponent(name)}`;
  const query = { tenant };
  // One after the other, so that the answer about a module that is not there names its version.
  const module = await api.get(`${path}/${encodeURIComponent(version)}`, { query, signal });
  const versions = await api.pages(path, { query, signal });
  const { code, ...rest } = module.form;
  const source = code?.source;
  const form = source === undefined ? module.form : { ...rest, code: { ...code, source: "…" } };
  replace(main,
    element("h1", {}, title(module)),
    module.summary ? element("p", {}, named(module.summary)) : null,
    facts(module),
    element("h2", {}, "Form"),
    element("pre", { tabindex: "0", "aria-label": "The form" }, JSON.stringify(form, null, 2)),
    source === undefined ? null : [
      element("h2", {}, "Source"),
      element("pre", { tabindex: "0", "aria-label": "The source" }, source),
    ],
    element("h2", {}, "Versions"),
    table([
      { title: "Version", cell: (each) => element("a", { href: addressOf(each) }, title(each)) },
      { title: "State", cell: stateOf },
      { title: "Published", cell: (each) => time(each.published) },
    ], versions, { caption: "All versions, oldest first" }));
}

function facts(module) {
  const rows = [
    ["State", [stateOf(module), module.deprecated === null ? null : ` since ${time(module.deprecated)}`]],
    ["Owner", module.owner === null ? "operators" : named(module.owner)],
    ["Shape", module.shape],
    ["Type", element("code", {}, module.type)],
    module.type === CODE ? ["Trust", module.vouched ? "an operator answers for its code" : "no operator answers for its code"] : null,
    module.tags.length > 0 ? ["Tags", named(module.tags.join(", "))] : null,
    module.cost === null ? null : ["CPU per event", seconds(module.cost / 1000)],
    module.quality === null ? null : ["Quality", String(module.quality)],
    ["Published", time(module.published)],
  ];
  return element("dl", { class: "facts" }, rows.filter(Boolean).map(([term, text]) => [
    element("dt", {}, term), element("dd", {}, text),
  ]));
}
