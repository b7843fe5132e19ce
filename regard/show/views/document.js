// Pointing at a sentence shades its words by their weights within the sentence alone.

const DARK = .55, FAINT = .01;  // of the scale: darker shades get white text, fainter ones none
const OWN = "the largest weight in this sentence", HINT = "Point at a sentence to see its own weights.";

/** `element` holds the document, shaded; `own[i]` are the weights of the words of sentence i, as thousandths of the
    largest of them. */
export function showDocument(element, {own}) {
  const sentences = [...element.querySelectorAll(".sentence")];
  const [top, note] = ["top", "note"].map(name => element.querySelector(`.${name}`));
  const usual = {top: top.textContent, note: note.textContent};
  const ramp = getComputedStyle(element).getPropertyValue("--ramp").split(",").map(readColour);
  note.textContent = `${usual.note}. ${HINT}`;
  sentences.forEach((sentence, at) => {
    const words = [...sentence.querySelectorAll(".word")], styles = words.map(word => word.getAttribute("style") ?? "");
    sentence.addEventListener("pointerenter", () => {
      sentence.classList.add("on");
      words.forEach((word, to) => word.setAttribute("style", styleOf(ramp, own[at][to] / 1000)));
      top.textContent = OWN;
    });
    sentence.addEventListener("pointerleave", () => {
      sentence.classList.remove("on");
      words.forEach((word, to) => word.setAttribute("style", styles[to]));
      top.textContent = usual.top;
    });
  });
}

function styleOf(ramp, level) {
  return level < FAINT ? "" : `background:${mix(ramp, level)}${level > DARK ? ";color:#fff" : ""}`;
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
