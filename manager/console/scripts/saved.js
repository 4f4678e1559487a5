/** What sharing and packing saved: the same figures, in the same words, on every page. */

import { cores, percent } from "./format.js";

/** The figures, each with a note, its cores and its price, if it has them; those of sharing only where work was shared. */
export function savedFigures({ work_by_sharing: work, cores_by_sharing: sharing, cores_by_packing: packing }) {
  const bySharing = work === null ? [] : [
    { words: "Work saved by sharing", number: percent(work), note: "of the CPU time of tasks, measured", price: null },
    {
      words: "Cores saved by sharing", number: cores(sharing.cores), cores: sharing.cores, note: "measured",
      price: sharing.price,
    },
  ];
  const note = `estimate: ${cores(packing.low)} to ${cores(packing.high)}`;
  const byPacking = {
    words: "Cores saved by packing", number: cores(packing.likely), cores: packing.likely, note, price: packing.price,
  };
  return [...bySharing, byPacking];
}

/** The same figures as a preview predicts them. */
export function predictedFigures({ work_by_sharing: work, cores_by_sharing: sharing, cores_by_packing: packing }) {
  const bySharing = work === null ? []
    : [["Work saved by sharing", percent(work)], ["Cores saved by sharing", cores(sharing)]];
  return [...bySharing, ["Cores saved by packing", cores(packing)]].map(([words, number]) => [`${words} (estimate)`, number]);
}
