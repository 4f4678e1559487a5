/** Templates: documents to begin with. */

import { api } from "../api.js";
import { printed } from "./json-edits.js";

const MOST = 100;
/** The dataflow of the README, over a source of one's own choice. */
const AVERAGES = {
  version: 1,
  name: "averages of plausible temperatures",
  tasks: [
    { id: "street", type: "source", config: { source: "city:street" } },
    { id: "plausible", type: "range_filter", config: { field: "temperature", min: -12.5, max: 43.1 } },
    { id: "average", type: "block_window_average", config: { field: "temperature", by: ["sensor"], window: 5 } },
    { id: "averages", type: "output" },
  ],
  streams: [
    { from: "street", to: "plausible" },
    { from: "plausible", to: "average" },
    { from: "average", to: "averages" },
  ],
};

/**
 * The templates, `{name, open()}`, which returns a text: the README's dataflow, those of RIoTBench, and those that the
 * caller may see.
 */
export async function templates(signal) {
  const [dataflows, { RIOTBENCH }] = await Promise.all([
    api.pages("/v1/dataflows", { signal, most: MOST }), import("./riotbench.js"),
  ]);
  return [
    { name: `Example: ${AVERAGES.name}`, open: async () => printed(AVERAGES) },
    ...RIOTBENCH.map(({ name, document }) => ({ name, open: async () => printed(document) })),
    ...dataflows.map((each) => ({
      name: `${each.name} (${each.id})`,
      open: async () => textOf(await api.get(`/v1/dataflows/${encodeURIComponent(each.id)}`, { signal })),
    })),
  ];
}

/** The text of a dataflow's document, as it was written: one that adapts or is planned would else do so no more. */
export function textOf(dataflow) {
  return printed(dataflow.dynamic ?? dataflow.pipeline ?? dataflow.document);
}
