// An image, the words of one or more captions of it, and where each word looked.

import {percentOf, readTable, termOf, topOf, withPieces} from "./parts.js";
import {sharesOf, showImages} from "./image.js";

export function show(element, data, host = {}) {
  return withPieces(element, data, host, (root, shown, context) => {
    const groups = shown.lines.map((line, number) => lookLine(line, `lines/${number}/weights`)),
      most = Math.max(0, ...groups.flatMap(group => group.looks.map(look => look.most)));
    const own = shown.scale === undefined || shown.scale === "each",
      top = own ? null : topOf(most, shown.scale);
    const gated = shown.lines.some(line => line.gates) ? [" The bar below a word is its ", termOf("gate"), "."] : [];
    return showImages(
      root,
      {
        url: shown.image ?? host.image,
        groups,
        top,
        topText: own ? "largest share of each word" : percentOf(top),
        more: gated,
        hint: "Point at a word, use the arrow keys, or play.",
        telling: true,
      },
      context,
    );
  });
}

function lookLine({words, weights, gates, name}, table) {
  const {
    shape: [, rows, columns],
    values,
  } = words.length ? readTable(weights) : {shape: [0, 0, 0]};
  const open = gates ? readTable(gates).values : null,
    size = rows * columns;
  const looks = words.map((word, at) => ({
    ...sharesOf(values.subarray(at * size, (at + 1) * size), rows, columns),
    name: word,
    table: {table, row: at},
    gate: open?.[at],
  }));
  const text = words.join(" ") || "(no words)";
  return {title: name ? `${name}: ${text}` : text, looks};
}
