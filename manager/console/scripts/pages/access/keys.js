/** API keys: listed, made for some time and with a role, shown once, revoked. */

import { api } from "../../api.js";
import { element, field, named, replace, table } from "../../dom.js";
import { button, confirmed, shownOnce, worker } from "../../forms.js";
import { counted, time } from "../../format.js";
import { refresh } from "../../refresh.js";

const DAY = 86400000;
/** For how many days a key is valid, and how that is called. */
const LIVES = [["", "never"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"]];

/** The section on the keys of a tenant; of operators if it is null. */
export function keySection(tenant, { signal, say }) {
  const [wrong, once, list] = [element("div", {}), element("div", {}), element("div", {})];
  const note = element("input", { autocomplete: "off", maxlength: 200 });
  const role = element("select", {},
    element("option", { value: "" }, "look and change"), element("option", { value: "read-only" }, "look only"));
  const days = element("select", {}, LIVES.map(([value, word]) => element("option", { value }, word)));
  const run = worker(wrong, signal);

  async function load() {
    const keys = (await api.pages("/v1/keys", { signal })).filter((key) => key.tenant === tenant);
    const [valid, ended] = [keys.filter((key) => endOf(key) === null), keys.filter((key) => endOf(key) !== null)];
    refresh(list, listed(valid), ended.length === 0 ? null
      : element("details", {}, element("summary", {}, counted(ended.length, "revoked or expired key")), listedEnded(ended)));
  }

  function make(event) {
    event.preventDefault();
    return run(async function send() {
      const expires = days.value ? new Date(Date.now() + days.value * DAY).toISOString() : null;
      const form = { tenant, note: note.value, read_only: role.value === "read-only", expires };
      const key = await api.post("/v1/keys", form, { signal });
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
      ...(tenant === null ? [] : [{ title: "May", cell: (key) => key.role === "read-only" ? "look only" : "look and change" }]),
      { title: "Made", cell: (key) => time(key.created) },
      { title: "Last used", cell: (key) => key.used === null ? "never" : time(key.used) },
      { title: "Expires", cell: (key) => key.expires === null ? "never" : time(key.expires) },
      { title: "Actions", changing: true, cell: (key) => button("Revoke…", () => revoke(key), { style: "small danger", label: `Revoke ${key.note || key.id}` }) },
    ], keys, { caption: "Keys that are valid", empty: "No keys yet. Make one for each program, so that you can revoke it alone." });
  }

  const node = element("section", { "aria-labelledby": "keys" },
    element("h2", { id: "keys" }, "API keys"),
    element("p", {}, "Programs send a key with each request to REST; the command braid takes it as BRAID_KEY."),
    wrong, list,
    element("form", { class: "toolbar changing", on: { submit: make } },
      field("Note", note, "What it is for."), tenant === null ? null : field("May", role), field("Expires", days),
      element("button", { class: "button", type: "submit" }, "Make a key")),
    once);
  return { node, load };
}

function endOf(key) {
  return key.revoked ?? (key.expires !== null && new Date(key.expires) <= new Date() ? key.expires : null);
}

function listedEnded(keys) {
  return table([
    { title: "Key", cell: (key) => element("code", {}, key.id) },
    { title: "Note", cell: (key) => named(key.note) },
    { title: "Made", cell: (key) => time(key.created) },
    { title: "Ended", cell: (key) => time(endOf(key)) },
  ], keys, { caption: "Revoked and expired keys" });
}
