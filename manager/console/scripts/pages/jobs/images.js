/** The section on images: what hosts are made from, and which hosts belong to each. */

import { api } from "../../api.js";
import { element, table } from "../../dom.js";
import { counted } from "../../format.js";
import { refresh } from "../../refresh.js";

/** The section on images; empty while none is registered. */
export function imageSection({ signal }) {
  const place = element("div", {});
  const node = element("section", { hidden: true }, element("h2", {}, "Images"), place);

  async function look() {
    const images = await api.pages("/v1/images", { signal });
    node.hidden = images.length === 0;
    refresh(place, listed(images));
  }

  return { node, look };
}

function listed(images) {
  return table([
    { title: "Image", cell: (image) => image.name },
    { title: "Tags", cell: (image) => list(image.tags) },
    { title: "Cores", number: true, cell: (image) => String(image.cores) },
    { title: "Start", number: true, cell: (image) => `${image.start} s` },
    { title: "Price an hour", number: true, cell: (image) => String(image.price) },
    { title: "Most hosts", number: true, cell: (image) => image.most ?? "–" },
    { title: "Hosts", cell: (image) => list(image.hosts) },
  ], images, { caption: counted(images.length, "image") });
}

function list(words) {
  return words.length === 0 ? "–" : words.join(", ");
}
