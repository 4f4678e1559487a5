/** The list of published modules, with filters. */

import { badge, element, field, named, replace, table } from "../dom.js";
import { counted, time } from "../format.js";
import { refresh } from "../refresh.js";
import { listInParts, remember } from "../reports.js";

const FILTERS = ["name", "shape", "tag", "deprecated"];
/** The shapes of modules in REST. */
export const SHAPES = ["one-to-one", "one-to-pair", "pair-to-pair", "pair-to-one", "filter", "join"];

export const title = "Modules";

/** Show the page. The filters are in its address, so that they are kept on the way back from a module. */
export async function show(main, { parameters, signal, say }) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, parameters[name] ?? ""]));
  const list = element("div", {});
  const { more, read } = listInParts("/v1/modules", {
    word: "Show more",
    query: () => asked,
    show(modules) {
      refresh(list, listed(modules, Object.values(asked).some(Boolean)));
      say(`${counted(modules.length, "version")} shown.`);
    },
    main,
    signal,
  });

  function filter(event) {
    event.preventDefault();
    Object.assign(asked, Object.fromEntries(new FormData(event.currentTarget)));
    remember("#/modules", asked);
    return read();
  }

  replace(main, element("h1", {}, title), filters(asked, filter), list, more);
  await read();
}

/** The address of a version's page. */
export function addressOf(module) {
  const tenant = module.owner === null ? "" : `?${new URLSearchParams({ tenant: module.owner })}`;
  return `#/modules/${encodeURIComponent(module.name)}/${module.version}${tenant}`;
}

/** The state of a version, as a word and a colour. */
export function stateOf(module) {
  return module.deprecated === null ? badge("good", "current") : badge("warn", "deprecated");
}

function filters(asked, filter) {
  function input(name) {
    return element("input", { name, type: "search", value: asked[name], maxlength: 300, spellcheck: "false", autocomplete: "off" });
  }
  function select(name, choices) {
    return element("select", { name, value: asked[name] }, choices.map(([value, word]) => element("option", { value }, word)));
  }
  return element("form", { class: "toolbar", role: "search", on: { submit: filter } },
    field("Name", input("name")),
    field("Shape", select("shape", [["", "All"], ...SHAPES.map((each) => [each, each])])),
    field("Tag", input("tag")),
    field("State", select("deprecated", [["", "All"], ["false", "Current"], ["true", "Deprecated"]])),
    element("button", { class: "button first", type: "submit" }, "Search"));
}

function listed(modules, isFiltered) {
  return table([
    { title: "Module", cell: (each) => element("a", { href: addressOf(each) }, `${each.name}@${each.version}`) },
    { title: "Owner", cell: (each) => (each.owner === null ? "operators" : named(each.owner)) },
    { title: "Shape", cell: (each) => each.shape },
    { title: "Type", cell: (each) => element("code", {}, each.type) },
    { title: "Tags", cell: (each) => named(each.tags.join(", ")) },
    { title: "State", cell: stateOf },
    { title: "Published", cell: (each) => time(each.published) },
    { title: "Summary", cell: (each) => element("div", { class: "wide" }, named(each.summary)) },
  ], modules, {
    caption: "Versions of modules, oldest first",
    empty: isFiltered ? "No matching modules." : "No modules yet.",
  });
}
