/** What needs attention, as the service lists it, each with a link to the page where it can be fixed. */

import { named } from "../../dom.js";
import { ago, counted } from "../../format.js";
import { addressOf as tenantPage } from "../../quotas.js";
import { addressOf as sourcePage } from "../sources.js";

/** The pages where something can be removed to stay below a limit; the other limits have none. */
const FIXED_AT = { sources: "#/sources", secrets: "#/access", keys: "#/access", modules: "#/modules", wheel_bytes: "#/modules" };
const LEVELS = { error: "bad", warning: "warn" };

/** One thing as the page shows it: its level, its words, and the address where it can be fixed. */
export function itemOf(concern, isOperator, now = new Date()) {
  const { urgency, what, at, reason } = concern;
  const words = [named(what), at === null ? null : ` ${ago(at, now)}`, reason ? [": ", named(reason)] : "."];
  return { level: LEVELS[urgency], words, href: addressOf(concern, isOperator) };
}

function addressOf({ kind, subject, limit }, isOperator) {
  switch (kind) {
    case "job":
      return subject ? `#/jobs/${encodeURIComponent(subject)}` : "#/jobs";
    case "dataflow":
      return subject ? dataflowPage(subject) : "#/dataflows?state=degraded";
    case "dead letters":
      return subject ? `${dataflowPage(subject)}?tab=dead-letters` : "#/dataflows";
    case "source":
      return sourcePage(subject);
    case "quota":
      return isOperator ? tenantPage(subject) : FIXED_AT[limit] ?? "#/dataflows";
    default:
      return "#/jobs";
  }
}

function dataflowPage(id) {
  return `#/dataflows/${encodeURIComponent(id)}`;
}

/** One sentence that says whether all is well, with its level. */
export function sentenceOf({ dataflows, well, concerns }) {
  const [runs, waits] = [dataflows.running ?? 0, dataflows.deploying ?? 0];
  const parts = [
    ...(runs > 0 ? [`${counted(runs, "dataflow")} run${runs === 1 ? "s" : ""}`] : []),
    ...(waits > 0 ? [`${counted(waits, "dataflow")} ${waits === 1 ? "is" : "are"} starting`] : []),
  ].join(", ");
  if (concerns > 0) {
    const words = `${counted(concerns, "thing")} need${concerns === 1 ? "s" : ""} attention${parts && `; ${parts}`}.`;
    return { level: well ? "warn" : "bad", words };
  }
  return { level: "good", words: parts ? `All is well: ${parts}.` : "Nothing runs yet, and nothing is wrong." };
}
