// Vectors as strips of colours, and how alike the first is to those of other texts.

import {stripOf} from "./cell.js";
import {clean, enter, make, onTheme, readRamp} from "./parts.js";

const ALIKE = "How alike its direction is to that of the examples, by the cosine: 1 is the same, 0 has nothing in common.";

/** `data`: {vectors: [[name, numbers], ..]}; `host.others()`: a promise of more such, to compare that of a text with. */
export function show(element, data, host = {}) {
  const {vectors} = data,
    of = host.others ? "the text" : "a token",
    strips = make("div", {class: "strips"}, ...vectors.map(([name, numbers]) => stripOf(clean(name), numbers))),
    alike = make("div", {});
  let closed = false;
  enter(element, "vectors");
  element.append(
    make("p", {class: "told"}, `Each strip is the vector of ${of}, a cell for each of its ${vectors[0][1].length} numbers: blue is below 0, orange above. Texts of like meaning should have like vectors.`),
    strips,
    alike,
  );
  const paint = () => {
    const ramp = readRamp(element, "--diverging");
    for (const canvas of element.querySelectorAll(".strip-of canvas")) canvas.paint?.(ramp);
  };
  paint();
  host.others?.().then(others => {
    if (closed || !others.length) return;
    const rows = others.map(([name, numbers]) => [name, numbers, cosine(vectors[0][1], numbers)]);
    rows.sort((one, other) => other[2] - one[2]);
    alike.append(
      make("p", {class: "told"}, ALIKE),
      make("div", {class: "strips"}, ...rows.map(([name, numbers, near]) => stripOf(`${near.toFixed(2).replace("-", "−")}  ${clean(name)}`, numbers))),
    );
    paint();
  });
  const stop = onTheme(paint);
  return {
    close() {
      closed = true;
      stop();
    },
  };
}

function cosine(one, other) {
  const product = (left, right) => left.reduce((sum, value, at) => sum + value * right[at], 0);
  return product(one, other) / Math.sqrt(product(one, one) * product(other, other)) || 0;
}
