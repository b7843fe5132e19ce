// A text and how much each query looks at each of its words.

import {largest, readHidden, readTable, topOf, withPieces} from "./parts.js";
import {showMatrix} from "./matrix.js";

export function show(element, data, host = {}) {
  return withPieces(element, data, host, (root, {weights, words, queries, mask, scale, query}, context) => {
    const {values} = readTable(weights);
    const look = {
      table: {table: "weights"},
      rows: queries,
      columns: words,
      weights: values,
      hidden: readHidden(mask),
      top: topOf(largest(values), scale),
      scale,
    };
    return showMatrix(root, look, {...context, state: {row: query, ...context.state}, ways: ["text", "map"]});
  });
}
