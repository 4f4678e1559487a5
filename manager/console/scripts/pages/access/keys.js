/** API keys: listed, made and shown once, revoked. */

import { api } from "../../api.js";
import { element, field, named, replace, table } from "../../dom.js";
import { button, confirmed, shownOnce, worker } from "../../forms.js";
import { counted, time } from "../../format.js";
import { refresh } from "../../refresh.js";

/** The section on the keys of a tenant; of operators if it is null. */
export function keySection(tenant, { signal, say }) {
  const [wrong, once, list] = [element("div", {}), element("div", {}), element("div", {})];
  const note = element("input", { autocomplete: "off", maxlength: 200 });
  const run = worker(wrong, signal);

  async function load() {
    const keys = (await api.pages("/v1/keys", { signal })).filter((key) => key.tenant === tenant);
    const [valid, revoked] = [keys.filter((key) => key.revoked === null), keys.filter((key) => key.revoked !== null)];
    refresh(list, listed(valid), revoked.length === 0 ? null
      : element("details", {}, element("summary", {}, counted(revoked.length, "revoked key")), listedRevoked(revoked)));
  }

  function make(event) {
    event.preventDefault();
    return run(async function send() {
      const key = await api.post("/v1/keys", { tenant, note: note.value }, { signal });
      note.value = "";
      replace(once, shownOnce("Keep this key now. It is shown this once.", { "API key": key.key }));
      say("The key is made.");
      await load();
    });
  }

  function revoke(key) {
    return run(async function ask() {
      const body = element("p", {}, "Programs with this key are refused at once, and sessions end that began with it: ", named(key.note || key.id));
      if (await confirmed({ title: "Revoke this key?", body, action: "Revoke", signal })) {
        await api.remove(`/v1/keys/${encodeURIComponent(key.id)}`, { signal });
        say("The key is revoked.");
        await load();
      }
    });
  }

  function listed(keys) {
    return table([
      { title: "Key", cell: (key) => element("code", {}, key.id) },
      { title: "Note", cell: (key) => named(key.note) },
      { title: "Made", cell: (key) => time(key.created) },
      { title: "Actions", cell: (key) => button("Revoke…", () => revoke(key), { style: "small danger", label: `Revoke ${key.note || key.id}` }) },
    ], keys, { caption: "Keys that are valid", empty: "No keys yet. Make one for each program, so that you can revoke it alone." });
  }

  const node = element("section", { "aria-labelledby": "keys" },
    element("h2", { id: "keys" }, "API keys"),
    element("p", {}, "Programs send a key with each request to REST; the command braid takes it as BRAID_KEY."),
    wrong, list,
    element("form", { class: "toolbar", on: { submit: make } },
      field("Note", note, "What it is for."), element("button", { class: "button", type: "submit" }, "Make a key")),
    once);
  return { node, load };
}

function listedRevoked(keys) {
  return table([
    { title: "Key", cell: (key) => element("code", {}, key.id) },
    { title: "Note", cell: (key) => named(key.note) },
    { title: "Made", cell: (key) => time(key.created) },
    { title: "Revoked", cell: (key) => time(key.revoked) },
  ], keys, { caption: "Revoked keys" });
}
