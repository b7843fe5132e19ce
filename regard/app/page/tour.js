// A tour of 60 seconds: what is what on the page, one part after the other.
import {button, make} from "./dom.js";
import {inShades} from "../views/parts.js";

const STOPS = [
  [".models", "Each of these is a small trained model. They translate, go on writing, classify, look at images. Choose any."],
  [".ask .box", "Ask it something here, or take one of the examples below."],
  [".panel .answer", "This is its answer, as it is written."],
  [".panel .seen > .regard", "And this is where it looked. In a map each row asks: which of the columns help me? Dark is where it looked. Point at a row to hear it in words."],
  [".panel .cell:not([hidden]), .panel .seen > .regard", "Click any weight to see how it came about: a query meets a key, they give a score, scores become weights, and the values are read. Move the sliders and the weights follow."],
  [".panel-tools", "Look into other layers and heads here, or write one token at a time and choose another: what would have followed?"],
  [".actions", "Compare puts two models side by side. Copy link sends all that you see to somebody. Under Learn are the lectures' examples."],
];

/** A button that leads through the page. */
export function tourButton() {
  let at = 0, marked = null;
  const text = make("p", {}), count = make("span", {class: "aside"});
  const back = button("Back", () => go(at - 1), {class: "plain"}), next = button("Next", () => at === STOPS.length - 1 ? end() : go(at + 1), {class: "main"});
  const box = make("div", {class: "tour", role: "dialog", "aria-label": "Tour", tabindex: "-1", hidden: true}, text,
    make("div", {class: "controls"}, count, back, next, button("End", () => end(), {class: "plain"})));
  const made = button("Tour", () => box.hidden ? go(0) : end(), {class: "plain", title: "What is what, in 60 seconds"});

  function mark(element) {
    marked?.classList.remove("toured");
    marked = element;
    marked?.classList.add("toured");
  }

  function end() {
    box.hidden = true;
    mark(null);
    made.focus();
  }

  /** The next stop that is on the page. */
  function go(wanted) {
    const step = wanted < at ? -1 : 1;
    let found = wanted;
    while (STOPS[found] && !seen(STOPS[found][0])) found += step;
    if (!STOPS[found]) return end();
    at = found;
    const element = seen(STOPS[at][0]);
    mark(element);
    element.scrollIntoView({block: "nearest"});
    text.replaceChildren(...inShades(STOPS[at][1]));
    count.textContent = `${at + 1} of ${STOPS.length}`;
    back.disabled = at === 0;
    next.textContent = at === STOPS.length - 1 ? "Done" : "Next";
    if (!box.isConnected) document.body.append(box);
    box.hidden = false;
    place(element.getBoundingClientRect());
    box.focus();
  }

  /** Below what it is about, or where there is room. */
  function place({left, bottom, top}) {
    const {offsetWidth, offsetHeight} = box, below = bottom + 10;
    const y = below + offsetHeight < innerHeight ? below : Math.max(10, Math.min(top - offsetHeight - 10, innerHeight - offsetHeight - 10));
    box.style.setProperty("left", `${Math.max(10, Math.min(left, innerWidth - offsetWidth - 10))}px`);
    box.style.setProperty("top", `${y}px`);
  }

  box.addEventListener("keydown", event => {
    const press = {Escape: end, ArrowRight: () => go(at + 1), ArrowLeft: () => at && go(at - 1)}[event.key];
    if (!press) return;
    event.preventDefault();
    press();
  });
  return made;
}

function seen(selector) {
  const found = selector.split(", ").flatMap(one => [...document.querySelectorAll(one)]);  // the first one named comes first
  return found.find(element => element.getClientRects().length);
}
