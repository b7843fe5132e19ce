// Pointing at a channel of a block tells its number and its gate in every row; ← and → go to its neighbours.

const HINT = "Point at a channel to see its gate; ← and → go to its neighbours.";

/** `element` holds the SVG of gates; `lines` is [[name, colour], ..] and `panels` is [{name, channels, gates}], the
    numbers of the channels that are drawn and, for each line, their gates in thousandths. */
export function showGates(element, {lines, panels}) {
  const boxes = [...element.querySelectorAll(".plot")];
  const told = make("div", "told"), mark = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  let panel = 0, place = null;
  mark.setAttribute("class", "channel");
  told.setAttribute("aria-live", "polite");
  element.prepend(told);

  function lookAt(nextPanel, nextPlace) {
    panel = nextPanel;
    place = nextPlace;
    if (place === null) {
      mark.remove();
      return told.replaceChildren(HINT);
    }
    const {name, channels, gates} = panels[panel], box = boxes[panel], step = size(box, "width") / channels.length;
    const thick = Math.max(step, 2);
    for (const [key, value] of Object.entries({x: size(box, "x") + (place + .5) * step - thick / 2, width: thick,
      y: size(box, "y"), height: size(box, "height")})) mark.setAttribute(key, value);
    box.parentNode.append(mark);
    const which = make("b", "");
    which.textContent = `${name}, channel ${channels[place]}`;  // only ever set as text, never as markup
    told.replaceChildren(which, lines.length > 1 ? document.createElement("br") : " ",
      ...gates.map((row, line) => gateOf(lines[line], row[place])));
  }

  element.addEventListener("pointermove", event => {
    const at = boxes.indexOf(event.target);
    if (at < 0) return;
    const {left, width} = boxes[at].getBoundingClientRect(), count = panels[at].channels.length;
    lookAt(at, Math.min(count - 1, Math.max(0, Math.floor((event.clientX - left) / width * count))));
  });
  element.ownerDocument.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (event.key === "Escape") lookAt(panel, null);
    if (!step || place === null) return;
    event.preventDefault();
    lookAt(panel, Math.min(panels[panel].channels.length - 1, Math.max(0, place + step)));
  });
  lookAt(0, null);
}

function gateOf([name, colour], thousandths) {
  const gate = make("span", ""), sign = make("i", ""), words = document.createElement("bdi");
  sign.style.background = colour;
  words.textContent = name;
  gate.append(sign, words, ` ${(thousandths / 1000).toFixed(3)}`);
  return gate;
}

function size(box, name) {
  return Number(box.getAttribute(name));
}

function make(kind, name) {
  const part = document.createElement(kind);
  part.className = name;
  return part;
}
