/** The webhook of a source: made, shown with the rule of its signature, given another secret, removed. */

import { api } from "../../api.js";
import { wrongAt } from "../../config-form.js";
import { element, field, prose, replace } from "../../dom.js";
import { button, confirmed, copyable, shownOnce, worker } from "../../forms.js";
import { time } from "../../format.js";

const SCHEMES = {
  standard: "Standard Webhooks", github: "GitHub", stripe: "Stripe", hex: "HMAC in a header, hexadecimal", base64: "HMAC in a header, base64",
};
const WITH_HEADER = ["hex", "base64"];

/** The section. */
export function webhookSection(source, { path, signal, say }) {
  const [wrong, place, once] = [element("div", {}), element("div", {}), element("div", {})];
  const run = worker(wrong, signal);
  const address = `${path}/webhook`;

  function load() {
    return run(async function ask() {
      try {
        display(await api.get(address, { signal }));
      } catch (error) {
        if (error.status !== 404) {
          throw error;
        }
        display(null);
      }
    });
  }

  function display(webhook) {
    replace(place, webhook === null ? [element("p", {}, "It has none."), makingForm()] : [
      copyable("URL of the webhook", webhook.url),
      element("p", {}, "Signature: ", prose(ruleOf(webhook))),
      element("p", { class: "faint" }, "Made ", time(webhook.made),
        webhook.former_until ? [". The secret before counts until ", time(webhook.former_until)] : null, "."),
      element("div", { class: "toolbar changing" }, button("New secret…", rotate), button("Remove the webhook…", remove, { style: "danger" })),
    ]);
  }

  function made(webhook) {
    replace(once, shownOnce("Give these to the service now. The secret is shown this once.", { URL: webhook.url, Secret: webhook.secret }));
    display(webhook);
  }

  function makingForm() {
    const scheme = element("select", { on: { change: shown } }, Object.entries(SCHEMES).map(([value, words]) => element("option", { value }, words)));
    const inputs = Object.fromEntries(["header", "prefix", "delivery", "secret"].map((name) => [name, element("input", { autocomplete: "off", spellcheck: "false" })]));
    const nodes = {
      header: field("Header with the signature", inputs.header, "Such as X-Signature."),
      prefix: field("Before the signature in that header", inputs.prefix, "Such as sha256=; mostly nothing."),
      delivery: field("Header with the id of a delivery", inputs.delivery, "By it a repeated delivery is known, and adds nothing."),
      secret: field("Secret", inputs.secret, "Only if the service has chosen one; otherwise one is made."),
    };
    const show = Object.fromEntries(Object.keys(inputs).map((name) => [name, wrongAt(nodes[name], inputs[name])]));

    function shown() {
      ["header", "prefix", "delivery"].forEach((name) => (nodes[name].hidden = !WITH_HEADER.includes(scheme.value)));
    }

    function placed(errors) {
      const names = Object.keys(inputs);
      names.forEach((name) => show[name](errors.filter(({ pointer }) => pointer === `/${name}`)));
      return errors.filter(({ pointer }) => !names.includes(pointer.slice(1)));
    }

    function make(event) {
      event.preventDefault();
      return run(async function send() {
        const given = Object.entries(inputs).filter(([name, input]) => input.value !== "" && !nodes[name].hidden);
        made(await api.post(address, { scheme: scheme.value, ...Object.fromEntries(given.map(([name, input]) => [name, input.value])) }, { signal }));
        say("The webhook is made.");
      }, placed);
    }

    shown();
    return element("form", { class: "changing", on: { submit: make } }, field("How the service signs", scheme), Object.values(nodes),
      element("button", { class: "button", type: "submit" }, "Make a webhook"));
  }

  function rotate() {
    return run(async function ask() {
      const body = element("p", {}, "What is signed with the present secret is taken for another 24 hours. The URL stays.");
      if (await confirmed({ title: "Make a new secret?", body, action: "Make it", signal })) {
        made(await api.post(`${address}/rotate`, {}, { signal }));
        say("The webhook has a new secret.");
      }
    });
  }

  function remove() {
    return run(async function ask() {
      const body = element("p", {}, "Nothing more is taken at its URL.");
      if (await confirmed({ title: "Remove the webhook?", body, action: "Remove", signal })) {
        await api.remove(address, { signal });
        replace(once);
        display(null);
        say("The webhook is removed.");
      }
    });
  }

  load();
  return element("section", { "aria-labelledby": "webhook" },
    element("h2", { id: "webhook" }, "Webhook"),
    element("p", {}, "A service without an API key posts events to a URL, and signs them with a secret."),
    element("div", { class: "card" }, wrong, place, once));
}

/** The rule by which a service signs. */
function ruleOf({ scheme, header, prefix, delivery }) {
  switch (scheme) {
    case "standard":
      return "header `webhook-signature`, `v1,` and the base64 HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>`. The key is what follows `whsec_`, decoded from base64. It counts for five minutes.";
    case "github":
      return "header `X-Hub-Signature-256`, `sha256=` and the hexadecimal HMAC-SHA256 of the body. A delivery is known by `X-GitHub-Delivery`.";
    case "stripe":
      return "header `Stripe-Signature`, `t=<seconds>,v1=` and the hexadecimal HMAC-SHA256 of `<seconds>.<body>`. It counts for five minutes.";
    default:
      return `header \`${header}\`, ${prefix ? `\`${prefix}\` and ` : ""}the ${scheme === "hex" ? "hexadecimal" : "base64"} HMAC-SHA256 of the body.${delivery ? ` A delivery is known by \`${delivery}\`.` : ""}`;
  }
}
