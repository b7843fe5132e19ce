// How much each row (a query) looks at each column (a place in memory).

import {largest, readHidden, readTable, topOf, withPieces} from "./parts.js";
import {showMatrix} from "./matrix.js";

export function show(element, data, host = {}) {
  return withPieces(element, data, host, (root, shown, context) => showMatrix(root, mapLook(shown), context));
}

function mapLook({weights, rows, columns, mask, scale, centres, window, row_label, column_label}) {
  const {values} = readTable(weights);
  return {
    table: {table: "weights"},
    rows,
    columns,
    weights: values,
    hidden: readHidden(mask),
    top: topOf(largest(values), scale),
    scale,
    centres: centres ? [...readTable(centres).values] : null,
    span: window ?? 0,
    rowName: row_label,
    columnName: column_label,
  };
}
