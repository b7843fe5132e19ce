// Pointing at a patch of an image tells its share of the attention in every panel; a slider mixes the colours in.

/** `element` holds the SVG of an overlay; `maps` has, for each panel, {rows, columns, shares} with shares in
    thousandths of a percent, or null for the image alone. */
export function showOverlay(element, maps) {
  const svg = element.querySelector("svg");
  const panels = [...svg.querySelectorAll(".panel")].map((group, at) => makePanel(group, maps[at]));

  // `left` and `top` are fractions of the image; each map has a grid of its own.
  function lookAt(left, top) {
    svg.classList.add("pointing");
    for (const {image, patch, note, map} of panels) {
      if (!map) continue;
      const {rows, columns, shares} = map, row = Math.floor(top * rows), column = Math.floor(left * columns);
      const width = image.getAttribute("width") / columns, height = image.getAttribute("height") / rows;
      setAll(patch, {x: column * width, y: row * height, width, height, visibility: "visible"});
      const share = shares[row * columns + column] / 1000;
      note.textContent = `${share.toFixed(share < .995 ? 2 : 1)} %`;
    }
  }

  function lookAway() {
    svg.classList.remove("pointing");
    for (const {patch, note, usual} of panels) {
      patch.setAttribute("visibility", "hidden");
      note.textContent = usual;
    }
  }

  svg.addEventListener("pointermove", event => {
    const found = panels.find(({group}) => group.contains(event.target));
    if (!found) return lookAway();
    const box = found.image.getBoundingClientRect();
    const left = (event.clientX - box.left) / box.width, top = (event.clientY - box.top) / box.height;
    if (left >= 0 && left < 1 && top >= 0 && top < 1) lookAt(left, top);
    else lookAway();
  });
  svg.addEventListener("pointerleave", lookAway);
  element.prepend(makeSlider([...svg.querySelectorAll(".layer")]));
}

function makePanel(group, map) {
  const patch = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  setAll(patch, {class: "patch", visibility: "hidden"});
  group.append(patch);
  const note = group.querySelector(".note");
  return {group, patch, note, map, image: group.querySelector("image"), usual: note.textContent};
}

function makeSlider(layers) {
  const label = document.createElement("label"), slider = document.createElement("input");
  setAll(slider, {type: "range", min: 0, max: 100, value: Math.round(100 * layers[0].getAttribute("opacity"))});
  slider.addEventListener("input", () => {
    for (const layer of layers) layer.setAttribute("opacity", slider.value / 100);
  });
  label.append("strength of the colours ", slider, " Point at a patch to see its share in every panel.");
  return label;
}

function setAll(part, attributes) {
  for (const name in attributes) part.setAttribute(name, attributes[name]);
}
