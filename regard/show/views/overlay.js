// Maps over an image, such as of the heads of a vision model, or rollout.

import {enter, headingOf, make, percentOf, readTable, topOf} from "./parts.js";
import {sharesOf, showImages} from "./image.js";
import {siteTitle, spokenTitle} from "./said.js";

export function show(element, data, host = {}) {
  const groups = new Map(),
    state = {...host.state},
    root = make("div", {class: "view"});
  for (const [name, table] of Object.entries(data.panels)) {
    const {
        shape: [rows, columns],
        values,
      } = readTable(table),
      cut = name.lastIndexOf(", head ");
    const title = cut < 0 ? "" : name.slice(0, cut); // heads of one site stand together
    if (!groups.has(title)) groups.set(title, {title: siteTitle(title, data.said), looks: []});
    groups
      .get(title)
      .looks.push({
        ...sharesOf(values, rows, columns),
        table: {table: `panels/${name}`},
        title: siteTitle(name, data.said),
        name: cut < 0 ? spokenTitle(name, data.said).title : name.slice(cut + 2),
      });
  }
  const looks = [...groups.values()].flatMap(group => group.looks),
    most = Math.max(...looks.map(look => look.most));
  const own = data.scale === undefined || data.scale === "each",
    top = own ? null : topOf(most, data.scale);
  enter(element, "overlay");
  element.append(...headingOf(data, host), root);
  return showImages(
    root,
    {
      url: data.image ?? host.image,
      groups: [...groups.values()],
      top,
      topText: own ? "largest share of each map" : percentOf(top),
      hint: "Point at a map, or at a patch of the image.",
    },
    {state, open: host.open, pointed: host.pointed, looked: host.looked, keep: changes => host.changed?.({...Object.assign(state, changes)})},
  );
}
