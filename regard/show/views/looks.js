// Pointing at a word of a caption, or at its panel, shows that panel large; ← and → go to the words beside it.

const SVG = "http://www.w3.org/2000/svg", HINT = "Point at a word to see its panel large; ← and → go to its neighbours.";

/** `element` holds the captions, whose words have the number of their panel, and the SVG of all panels. Panel 0 is the
    image alone. */
export function showLooks(element) {
  const captions = element.querySelector(".captions");
  const panels = [...element.querySelectorAll("svg .panel")], words = [...captions.querySelectorAll(".word")];
  const [image, large] = [makeLarge(panels[0]), makeLarge(panels[0])], told = make("told"), hint = make("hint");
  const last = panels.length - 1;
  let shown = 0;
  told.setAttribute("aria-live", "polite");
  hint.append(HINT);
  captions.append(told, hint);
  captions.before(image, large);

  function lookAt(at) {
    shown = at;
    for (const old of element.querySelectorAll(".on")) old.classList.remove("on");
    fill(large, panels[at]);
    large.style.display = at ? "" : "none";  // the image alone stands beside it anyway
    if (!at) return told.replaceChildren();
    const word = words[at - 1], own = words.filter(other => other.parentNode === word.parentNode);
    for (const part of [word, panels[at]]) part.classList.add("on");
    const notes = [...panels[at].querySelectorAll(".note")].map(note => note.textContent);
    told.replaceChildren([`word ${own.indexOf(word) + 1} of ${own.length}`, ...notes].join(", "));
  }

  element.addEventListener("pointerover", event => {
    const at = Number(event.target.closest("[data-panel]")?.dataset.panel ?? shown);
    if (at !== shown) lookAt(at);
  });
  element.ownerDocument.addEventListener("keydown", event => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step || !last) return;
    event.preventDefault();
    lookAt(Math.min(last, Math.max(1, shown + step)));
  });
  fill(image, panels[0]);
  lookAt(Math.min(1, last));
}

function make(name) {
  const part = document.createElement("p");
  part.className = name;
  return part;
}

function makeLarge(panel) {
  const large = document.createElementNS(SVG, "svg"), {width, height} = panel.querySelector("image").attributes;
  large.setAttribute("viewBox", `0 0 ${width.value} ${height.value}`);
  large.setAttribute("class", "large");
  large.style.setProperty("--ratio", width.value / height.value);
  return large;
}

// The image, its layer of colour and the mark of a chosen place, without what stands below the panel.
function fill(large, panel) {
  large.replaceChildren(...[...panel.querySelectorAll("use, image, .place")].map(part => part.cloneNode(true)));
}
