/** The credentials of a tenant for the broker: what it may read and write there, and new ones, shown this once. */

import { api } from "../../api.js";
import { element, named, replace } from "../../dom.js";
import { button, confirmed, shownOnce, worker } from "../../forms.js";
import { time } from "../../format.js";

/** The button that makes new credentials, with the place where they are shown; `made(credentials)` gets them. */
export function credentialsButton(tenant, { signal, say, made }) {
  const [wrong, once] = [element("div", {}), element("div", {})];
  const run = worker(wrong, signal);

  function make() {
    return run(async function ask() {
      const body = element("p", {}, "The present password of ", named(tenant),
        ", if it has one, ends at once: whatever uses it is disconnected until it has the new one.");
      if (!(await confirmed({ title: "Make new credentials?", body, action: "Make new ones", signal }))) {
        return;
      }
      const path = `/v1/tenants/${encodeURIComponent(tenant)}/credentials`;
      const credentials = await api.post(path, undefined, { signal });
      replace(once, shownOnce("Keep the password now. It is shown this once.", { User: credentials.user, Password: credentials.password }));
      say("New credentials are made.");
      made(credentials);
    });
  }

  return element("div", { class: "asking changing" }, button("Make new credentials…", make), element("p", { class: "faint" }, "The old password ends then."), wrong, once);
}

/** The section on the broker. */
export function brokerSection(tenant, { signal, say }) {
  const place = element("div", {});
  const path = `/v1/tenants/${encodeURIComponent(tenant)}/credentials`;

  function show(login) {
    replace(place, element("dl", { class: "facts" },
      fact("Address", login.url ? element("code", {}, login.url) : "not known at the moment"),
      fact("User", element("code", {}, login.user)),
      fact("Password made", login.made === null ? "never: make credentials first" : time(login.made)),
      fact("May publish on", topics(login.writes, "nothing yet: the topics of its sources")),
      fact("May subscribe to", topics(login.reads, "nothing yet"))));
  }

  async function load() {
    show(await api.get(path, { signal }));
  }

  const node = element("section", { "aria-labelledby": "broker" },
    element("h2", { id: "broker" }, "Broker credentials"),
    element("p", {}, "Devices and programs connect to the broker with these, over MQTT."),
    place, credentialsButton(tenant, { signal, say, made: show }));
  return { node, load };
}

function fact(word, value) {
  return [element("dt", {}, word), element("dd", {}, value)];
}

function topics(all, none) {
  return all.length === 0 ? none : element("ul", { class: "plain" }, all.map((each) => element("li", {}, element("code", {}, each))));
}
