/** The navigation: the pages in their groups, behind a button on phones, whose session it is, and whether it may only look. */

import { element, named, replace } from "./dom.js";

/** The groups in their order; last are the pages in none. */
const GROUPS = ["Run", "Library", "Operate", "Money", undefined];

const nav = document.getElementById("nav");
const menu = document.getElementById("menu");
const account = document.getElementById("account");

menu.addEventListener("click", () => open(menu.getAttribute("aria-expanded") === "false"));

/** Show the pages of the table of routes that the session may open; nothing without a session. */
export function showNavigation(routes, current, session, signOut) {
  for (const part of [nav, menu, account]) {
    part.hidden = session === null;
  }
  // What has the class `changing` is not shown then.
  document.documentElement.toggleAttribute("data-read-only", session?.kind === "read-only");
  open(false);
  if (session === null) {
    return;
  }
  const isOperator = session.kind === "operator";
  const linked = routes.filter((route) => route.word && (isOperator || !route.operators));
  const here = current?.within ?? current?.path;
  replace(nav, GROUPS.map(function grouped(group) {
    const links = linked.filter((route) => route.group === group).map((route) =>
      element("a", { href: `#${route.path}`, "aria-current": route.path === here ? "page" : null }, route.word));
    return links.length === 0 ? null : element("div", { role: "group", "aria-label": group ?? "More" },
      element("span", { class: "group", "aria-hidden": "true" }, group), element("div", {}, links));
  }));
  replace(account,
    element("span", { id: "who" }, isOperator ? "operator" : named(session.tenant),
      session.name ? [": ", named(session.name)] : null),
    element("button", { class: "button small", type: "button", on: { click: signOut } }, "Sign out"));
}

/** Show or hide the pages where there is little room; elsewhere they are always shown. */
function open(opens) {
  menu.setAttribute("aria-expanded", String(opens));
}
