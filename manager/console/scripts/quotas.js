/** Quotas: what tenants use of what they may. */

import { element, named, table } from "./dom.js";
import { count, percent, time } from "./format.js";

/** The limits of a quota, in words. */
export const LIMITS = {
  dataflows: "Dataflows",
  tasks: "Tasks",
  streams: "Streams between tasks",
  submits_per_minute: "Submissions in the last minute",
  sources: "Sources",
  secrets: "Secrets",
  modules: "Versions of modules",
  keys: "API keys",
  wheel_bytes: "Bytes of wheels",
  from_earliest: "Dataflows from the earliest events",
  state_mb: "MB of states",
  budget: "Money a day for dataflows with alternates",
  requests_per_minute: "Requests a minute",
};
/** How many requests came is not counted over all managers. */
const COUNTED = Object.keys(LIMITS).filter((limit) => limit !== "requests_per_minute");

/** The part of a page about them: of all tenants for an operator, else of the one tenant. */
export function quotas(tenants, isOperator) {
  if (!isOperator && tenants.length === 0) {
    return null;
  }
  return [
    element("h2", {}, isOperator ? "Tenants" : "Your quota"),
    isOperator ? tenantQuotas(tenants) : ownQuota(tenants[0]),
  ];
}

/** What one tenant uses, limit by limit. */
function ownQuota(tenant) {
  return table([
    { title: "What", cell: (limit) => LIMITS[limit] },
    { title: "Used", number: true, cell: (limit) => count(tenant.uses[limit]) },
    { title: "At most", number: true, cell: (limit) => count(tenant.quota[limit]) },
    { title: "Share", number: true, cell: (limit) => percent(share(tenant, limit)) },
  ], COUNTED, { caption: "What you may use" });
}

/** The address of a tenant's page. */
export function addressOf(name) {
  return `#/tenants/${encodeURIComponent(name)}`;
}

/** All tenants, those first that are nearest to a limit. */
export function tenantQuotas(tenants) {
  const rows = tenants.map((tenant) => ({ tenant, limit: nearest(tenant) }));
  rows.sort((one, other) => share(other.tenant, other.limit) - share(one.tenant, one.limit));
  return table([
    { title: "Tenant", cell: (row) => element("a", { href: addressOf(row.tenant.name) }, named(row.tenant.name)) },
    { title: "Dataflows", number: true, cell: (row) => used(row.tenant, "dataflows") },
    { title: "Tasks", number: true, cell: (row) => used(row.tenant, "tasks") },
    { title: "Nearest limit", cell: (row) => `${LIMITS[row.limit]}: ${used(row.tenant, row.limit)}` },
    { title: "Share", number: true, cell: (row) => percent(share(row.tenant, row.limit)) },
    { title: "In quarantine until", cell: (row) => time(row.tenant.quarantined_until) },
  ], rows, { caption: "Tenants and their quotas", empty: "No tenants yet. Admit one, and make a key for it." });
}

/** The limit of which a tenant uses the largest part. */
export function nearest(tenant) {
  return COUNTED.reduce((most, limit) => (share(tenant, limit) > share(tenant, most) ? limit : most));
}

function used(tenant, limit) {
  return `${count(tenant.uses[limit])} of ${count(tenant.quota[limit])}`;
}

/** The part of a limit that a tenant uses. */
export function share(tenant, limit) {
  return tenant.uses[limit] === 0 ? 0 : tenant.uses[limit] / Math.max(1, tenant.quota[limit]);
}
