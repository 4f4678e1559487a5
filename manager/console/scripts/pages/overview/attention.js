/** What needs attention, the worst first, each with a link to the page where it can be fixed. */

import { named } from "../../dom.js";
import { ago, count, counted } from "../../format.js";
import { addressOf as tenantPage, LIMITS, nearest, share } from "../../quotas.js";
import { addressOf as sourcePage } from "../sources.js";

/** The milliseconds for which what happened counts as new. */
const NEW = 60 * 60 * 1000;
/** The part of a limit above which it is nearly used up. */
const NEARLY = 0.9;
const MOST = 10;
/** The pages where something can be removed to stay below a limit; the other limits have none. */
const FIXED_AT = { sources: "#/sources", secrets: "#/access", keys: "#/access", modules: "#/modules", wheel_bytes: "#/modules" };

/**
 * What needs attention.
 * @param {object} state `jobs` (those of the overview, for operators) and `hosts`, degraded `dataflows`, `groups` of dead
 *   letters, `sources` and `tenants`, as REST answers them
 * @returns {{items: Array<{level: string, words: Array, href: string}>, more: number}} the first ones
 */
export function attentionOf({ jobs, hosts, dataflows, groups, sources, tenants }, isOperator, now = new Date()) {
  const isNew = (when) => now - new Date(when) < NEW;
  const items = [
    ...hosts.filter((host) => !host.alive).map((host) => bad(["The host ", named(host.name), " is away."], "#/jobs")),
    ...(jobs?.troubled ?? []).map((job) =>
      bad([`Job ${job.job} (${job.state}): `, named(job.trouble)], `#/jobs/${encodeURIComponent(job.job)}`)),
    ...alike(dataflows).map(([first, ...others]) => others.length > 0
      ? bad([`${count(others.length + 1)} dataflows are degraded: `, named(first.reason)], "#/dataflows?state=degraded")
      : bad(["The dataflow ", named(first.name), " is degraded: ", named(first.reason)], pageOf(first.id))),
    ...sources.filter((source) => source.received?.link?.connected === false).map(({ name, received: { link } }) =>
      bad(["The source ", named(name), ` lost its connection ${ago(link.since, now)}: `, named(link.error)], sourcePage(name))),
    ...groups.filter((group) => isNew(group.last)).map((group) => warn([
      `${counted(group.dead_letters, "dead letter")}, the last ${ago(group.last, now)}: `, named(group.reason),
    ], pageOf(group.dataflows[0]))),
    ...sources.filter((source) => isNew(source.received?.newest[0]?.at)).map(({ name, received: { newest, rejected } }) =>
      warn(["The source ", named(name), ` rejected ${counted(rejected, "event")}, the last ${ago(newest[0].at, now)}: `,
        named(newest[0].reason)], sourcePage(name))),
    ...tenants.map((tenant) => ({ tenant, limit: nearest(tenant) }))
      .filter(({ tenant, limit }) => share(tenant, limit) >= NEARLY)
      .map(({ tenant, limit }) => warn([
        ...(isOperator ? ["The tenant ", named(tenant.name), ": "] : ["Your quota: "]),
        `${count(tenant.uses[limit])} of ${count(tenant.quota[limit])} ${inText(LIMITS[limit])} used`,
      ], isOperator ? tenantPage(tenant.name) : FIXED_AT[limit] ?? "#/dataflows")),
  ];
  return { items: items.slice(0, MOST), more: Math.max(0, items.length - MOST) };
}

/** One sentence that says whether all is well. */
export function sentenceOf({ dataflows }, { items, more }) {
  const [runs, waits] = [dataflows.running ?? 0, dataflows.deploying ?? 0];
  const parts = [
    ...(runs > 0 ? [`${counted(runs, "dataflow")} run${runs === 1 ? "s" : ""}`] : []),
    ...(waits > 0 ? [`${counted(waits, "dataflow")} ${waits === 1 ? "is" : "are"} starting`] : []),
  ].join(", ");
  const wrong = items.length + more;
  if (wrong > 0) {
    const level = items.some((item) => item.level === "bad") ? "bad" : "warn";
    return { level, words: `${counted(wrong, "thing")} need${wrong === 1 ? "s" : ""} attention${parts && `; ${parts}`}.` };
  }
  return { level: "good", words: parts ? `All is well: ${parts}.` : "Nothing runs yet, and nothing is wrong." };
}

/** A limit within a sentence: its capital letter becomes small, but for abbreviations. */
function inText(words) {
  return /^[A-Z][a-z]/.test(words) ? words[0].toLowerCase() + words.slice(1) : words;
}

function bad(words, href) {
  return { level: "bad", words, href };
}

function warn(words, href) {
  return { level: "warn", words, href };
}

/** The dataflows by the reason that they are degraded for, which many may have in common. */
function alike(dataflows) {
  const reasons = new Map();
  dataflows.forEach((dataflow) => reasons.set(dataflow.reason, [...(reasons.get(dataflow.reason) ?? []), dataflow]));
  return [...reasons.values()];
}

function pageOf(dataflow) {
  return dataflow === undefined ? "#/dataflows" : `#/dataflows/${encodeURIComponent(dataflow)}`;
}
