// Pointing at a word of a long text that is a query shades the text by where that query looks.

const DARK = .55, FAINT = .01;  // of the scale: darker shades get white text, fainter ones none
const HINT = "Point at a word to see where it looks; click to keep it.";

/** `element` holds the text, shaded; `data` is {rows, first, tops, places, names, note}: rows[i] has the weights of
    query first + i as thousandths of its scale tops[i], -1 where it may not look; places[q] is the word that query q
    is, or places is null and the queries are a text of their own. */
export function showShaded(element, data) {
  const words = [...element.querySelectorAll(".words span")];
  const [top, note] = ["top", "note"].map(name => element.querySelector(`.${name}`));
  const usual = {styles: words.map(word => word.getAttribute("style") ?? ""), top: top.textContent};
  const asking = queries();
  const ramp = getComputedStyle(element).getPropertyValue("--ramp").split(",").map(readColour);
  const hidden = getComputedStyle(element).getPropertyValue("--hidden").trim();
  let kept = null;

  function queries() {
    const spans = data.places ? data.places.map(at => words[at]) : [...element.querySelectorAll(".queries span")];
    return spans.map((span, query) => ({span, query})).filter(({query}) => query >= data.first);
  }

  function lookAt(found) {
    for (const {span} of asking) span.classList.toggle("on", span === found?.span);
    if (!found) {
      words.forEach((word, at) => word.setAttribute("style", usual.styles[at]));
      top.textContent = usual.top;
      return note.replaceChildren(asking.length ? `${data.note}. ${HINT}` : data.note);
    }
    const at = found.query - data.first, row = data.rows[at];
    top.textContent = `${row.some(one => one > 1000) ? "≥ " : ""}${data.tops[at]}`;
    words.forEach((word, to) => word.setAttribute("style", styleOf(row[to])));
    const name = document.createElement("bdi");
    name.textContent = data.names[found.query];  // only ever set as text, never as markup
    note.replaceChildren("where ", name, " looks");
  }

  function styleOf(thousandths) {
    if (thousandths === undefined) return "";
    if (thousandths < 0) return `background:${hidden}`;
    const level = Math.min(1, thousandths / 1000);
    if (level < FAINT) return "";
    return `background:${mix(ramp, level)}${level > DARK ? ";color:#fff" : ""}`;
  }

  for (const found of asking) {
    found.span.classList.add("asks");
    found.span.addEventListener("pointerenter", () => kept ?? lookAt(found));
    found.span.addEventListener("click", () => lookAt(kept = kept === found ? null : found));
  }
  for (const text of element.querySelectorAll(".text"))
    text.addEventListener("pointerleave", () => kept ?? lookAt(null));
  lookAt(null);
}

function readColour(text) {
  const number = parseInt(text.trim().slice(1), 16);
  return [number >> 16, number >> 8 & 255, number & 255];
}

/** The colour at a level in [0, 1] of a ramp of evenly spaced colours. */
function mix(ramp, level) {
  const place = level * (ramp.length - 1), at = Math.min(Math.floor(place), ramp.length - 2);
  const parts = ramp[at].map((from, channel) => Math.round(from + (ramp[at + 1][channel] - from) * (place - at)));
  return `rgb(${parts.join(",")})`;
}
