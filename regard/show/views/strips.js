// Vectors as strips of cells.

import {make, paintCells} from "./parts.js";

/** A vector as a strip of cells, blue below 0 and orange above. `scale`: the vector whose largest number is darkest. */
export function stripOf(name, values, scale = values) {
  const canvas = make("canvas", {"aria-hidden": "true"}),
    most = Math.max(...scale.map(Math.abs)) || 1;
  canvas.paint = ramp => paintCells(canvas, 1, values.length, at => (values[at] / most + 1) / 2, ramp);
  const norm = Math.sqrt(values.reduce((sum, value) => sum + value * value, 0));
  return make(
    "div",
    {class: "strip-of", title: `${values.length} numbers from ${signed(Math.min(...values))} to ${signed(Math.max(...values))}; length ${norm.toFixed(2)}`},
    make("span", {}, name),
    canvas,
  );
}

export function signed(value) {
  return `${value < 0 ? "−" : ""}${Math.abs(value).toFixed(Math.abs(value) < 0.1 ? 3 : 2)}`;
}
