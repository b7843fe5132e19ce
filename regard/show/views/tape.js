// Pointing at a step marks it in every panel, tells the largest row of each, and shows the memory after it; ← and →
// go to its neighbours.

const HINT = "Point at a step to see the memory after it; ← and → go to its neighbours.";

/** `element` holds the SVG of a tape; `panels` is [{name, values}], for each step the rows in thousandths; `memory`
    is null or {places, width, colours, after}: for each step a text with one digit of base 36 for each cell. */
export function showTape(element, {steps, panels, memory}) {
  const boxes = [...element.querySelectorAll(".panel")], marks = boxes.map(() => mark());
  const told = make("div", "told"), canvas = make("canvas", "memory");
  let place = null;
  told.setAttribute("aria-live", "polite");
  element.prepend(told);
  if (memory) {
    canvas.width = memory.width;
    canvas.height = memory.places;
    canvas.hidden = true;
    element.append(canvas);
  }

  function lookAt(next) {
    place = next;
    canvas.hidden = place === null;
    if (place === null) {
      marks.forEach(one => one.remove());
      return told.replaceChildren(HINT);
    }
    boxes.forEach((box, at) => {
      const step = size(box, "width") / steps;
      for (const [key, value] of Object.entries({x: size(box, "x") + place * step, width: step, y: size(box, "y"),
        height: size(box, "height")})) marks[at].setAttribute(key, value);
      box.after(marks[at]);
    });
    const which = make("b", "");
    which.textContent = `step ${place}`;  // only ever set as text, never as markup
    told.replaceChildren(which, ...panels.map(largest));
    if (memory) draw();
  }

  function largest({name, values}) {
    const row = values[place], most = Math.max(...row), part = make("span", "");
    part.textContent = `${name}: row ${row.indexOf(most)}, ${(most / 1000).toFixed(3)}`;
    return part;
  }

  function draw() {
    const context = canvas.getContext("2d"), image = context.createImageData(memory.width, memory.places);
    [...memory.after[place]].forEach((digit, at) => {
      image.data.set([...memory.colours[parseInt(digit, 36)], 255], 4 * at);
    });
    context.putImageData(image, 0, 0);
  }

  element.addEventListener("pointermove", event => {
    const box = boxes.find(one => one === event.target);
    if (!box) return;
    const {left, width} = box.getBoundingClientRect();
    lookAt(Math.min(steps - 1, Math.max(0, Math.floor((event.clientX - left) / width * steps))));
  });
  element.ownerDocument.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === "Escape") lookAt(null);
    if (!step || place === null) return;
    event.preventDefault();
    lookAt(Math.min(steps - 1, Math.max(0, place + step)));
  });
  lookAt(null);
}

function mark() {
  const found = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  found.setAttribute("class", "step");
  return found;
}

function size(box, name) {
  return Number(box.getAttribute(name));
}

function make(kind, name) {
  const part = document.createElement(kind);
  part.className = name;
  return part;
}
