// Vectors as strips of colours, and how alike the first is to those of other texts.

import {clean, enter, headingOf, make, onTheme, readRamp, readTable} from "./parts.js";
import {stripOf} from "./strips.js";

const ALIKE = "How alike its direction is to that of the examples, by the cosine: 1 is the same, 0 has nothing in common.";

/** `host.others()`: a promise of more vectors, [[name, numbers], ..], to compare that of a text with. */
export function show(element, data, host = {}) {
  const {shape, values} = readTable(data.vectors),
    vectors = data.rows.map((name, at) => [name, [...values.subarray(at * shape[1], (at + 1) * shape[1])]]),
    own = host.others ? vectors.slice(0, 1) : vectors, // behind it others, in a page that was saved
    strips = make("div", {class: "strips"}, ...own.map(([name, numbers]) => stripOf(clean(name), numbers))),
    alike = make("div", {});
  let closed = false;
  enter(element, "vectors");
  element.append(
    ...headingOf(data, host),
    make("p", {class: "told"}, `Each strip is the vector of the text beside it, a cell for each of its ${shape[1]} numbers: blue is below 0, orange above. Texts of like meaning should have like vectors.`),
    strips,
    alike,
  );
  const paint = () => {
    const ramp = readRamp(element, "--diverging");
    for (const canvas of element.querySelectorAll(".strip-of canvas")) canvas.paint?.(ramp);
  };
  paint();
  host.others?.().then(asked => {
    const others = [...vectors.slice(1), ...asked];
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
