// Pointing at an example marks all examples of its class.

/** `element` holds the SVG of a query and its examples. */
export function showExamples(element) {
  const svg = element.querySelector("svg"), examples = [...svg.querySelectorAll(".example")];
  svg.addEventListener("pointermove", event => {
    const found = examples.find(one => one.contains(event.target));
    svg.classList.toggle("pointing", Boolean(found));
    for (const one of examples) one.classList.toggle("same", one.dataset.label === found?.dataset.label);
  });
  svg.addEventListener("pointerleave", () => svg.classList.remove("pointing"));
}
