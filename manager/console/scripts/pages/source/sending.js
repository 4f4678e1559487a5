/** The section on sending events to a source: lines to copy, with the broker's address, and new credentials. */

import { api } from "../../api.js";
import { element, replace } from "../../dom.js";
import { copyable, worker } from "../../forms.js";
import { credentialsButton } from "../access/credentials.js";
import { linesFor } from "./lines.js";

/** The section; `by` is the id of the lines that are open at first, and `update(source)` has other fields in them. */
export function sending(first, { by = "mosquitto", signal, say }) {
  const [words, lines, wrong] = [element("p", {}), element("div", {}), element("div", {})];
  const path = `/v1/tenants/${encodeURIComponent(first.owner)}/credentials`;
  const run = worker(wrong, signal);
  let source = first;
  let login = null;

  function update(changed) {
    if (JSON.stringify(changed.schema) !== JSON.stringify(source.schema)) {
      source = changed;
      show(login);
    }
  }

  function show(given) {
    login = given;
    if (login === null) {
      return;
    }
    const open = lines.querySelector("details[open]")?.dataset.by ?? by;
    replace(words, login.password ? "Copy these lines. They hold the new password."
      : login.made === null ? `Make credentials first: ${source.owner} has no password at the broker yet. Then copy these lines.`
        : "Copy these lines, with your broker password in place of PASSWORD; or make new credentials.");
    replace(lines,
      login.url ? null : element("p", { class: "wrong" }, "The broker's address is not known at the moment. Put it in place of BROKER."),
      linesFor(source, login, { origin: location.origin, password: login.password }).map(({ id, title, note, text }) =>
        element("details", { class: "lines", name: "lines", open: id === open, dataset: { by: id } },
          element("summary", {}, title), element("p", { class: "faint" }, note), copyable(`Lines for ${title}`, text))));
  }

  const node = element("section", { "aria-labelledby": "sending" },
    element("h2", { id: "sending" }, "Send events"),
    words,
    element("div", { class: "toolbar" }, credentialsButton(first.owner, { signal, say, made: show })), wrong, lines);
  run(async function ask() {
    show(await api.get(path, { signal }));
  });
  return { node, update };
}
