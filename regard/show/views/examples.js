// An image, the labelled examples that a model was shown, and how much the image looked at each.

import {
  clamp,
  clean,
  enter,
  headingOf,
  make,
  percentOf,
  readTable,
  rove,
  toldLine,
  tokenOf,
  topOf,
} from "./parts.js";
import {siteTitle} from "./said.js";

const HINT = "The bar below an example is how much the image looked at it. Point at an example, or use the arrow keys, to see its weight and those of its class.";

export function show(element, data, host = {}) {
  const state = {...host.state},
    root = make("div", {class: "view"}),
    told = toldLine(HINT),
    names = Object.keys(data.looks);
  const looks = names.map(name => readTable(data.looks[name]).values),
    all = Math.max(...looks.flatMap(look => [...look]));
  const bars = data.examples.map(() => make("span", {})),
    notes = data.examples.map(() => make("span", {class: "small"}));
  const cards = data.examples.map((example, at) =>
    make(
      "div",
      {class: `thumb${example.label === data.chosen ? " chosen" : ""}`, role: "img"},
      make("img", {src: example.image, alt: ""}),
      make("span", {class: "gate"}, bars[at]),
      tokenOf(example.label),
      notes[at],
    ),
  );
  const shares = make("p", {class: "note shares"}),
    key = make("p", {class: "key"});
  let look = Math.max(0, names.indexOf(state.look));

  const select = make("select", {}, ...names.map((name, at) => make("option", {value: at}, siteTitle(clean(name), data.said))));
  const tools =
    names.length > 1 ? [make("div", {class: "tools"}, make("label", {class: "field"}, "Look of", select))] : [];
  select.value = String(look);
  select.addEventListener("change", () => {
    look = Number(select.value);
    host.changed?.(Object.assign(state, {look: names[look]}));
    draw();
  });
  enter(element, "examples");
  element.append(...headingOf(data, host), root);
  const query = make(
    "figure",
    {class: "query"},
    make("img", {src: data.query ?? host.image, alt: "the image itself"}),
    make(
      "figcaption",
      {},
      "the image",
      ...(data.chosen ? [make("br"), "answer: ", make("b", {}, clean(data.chosen))] : []),
    ),
  );
  root.append(
    ...tools,
    told.line,
    make("div", {class: "beside"}, query, make("div", {}, shares, make("div", {class: "thumbs"}, ...cards), key)),
  );

  function draw() {
    const weights = looks[look],
      top = topOf(data.scale === "each" ? Math.max(...weights) : all, data.scale);
    cards.forEach((card, at) => {
      bars[at].style.setProperty("width", `${100 * Math.min(1, weights[at] / top)}%`);
      notes[at].textContent = percentOf(weights[at]);
      card.setAttribute("aria-label", `${clean(data.examples[at].label)}, ${percentOf(weights[at])}`);
    });
    const classes = classShares(data.examples, weights).slice(0, 5);
    shares.replaceChildren(
      ...classes.flatMap(([name, share]) => [tokenOf(name), ` ${percentOf(share)}, `]),
      `itself ${percentOf(weights.at(-1))}`,
    );
    key.replaceChildren(
      make("span", {class: "sign chosen"}),
      `examples of the class of the answer; a full bar is ${percentOf(top)}`,
    );
  }

  /** An example and its class; the other classes grow pale. */
  function lookAt(at) {
    root.classList.toggle("pointing", at !== null);
    cards.forEach((card, other) =>
      card.classList.toggle("same", at !== null && data.examples[other].label === data.examples[at].label),
    );
    if (at === null) return told.rest();
    const {label: own, name} = data.examples[at],
      share = new Map(classShares(data.examples, looks[look])).get(own);
    told.tell(
      tokenOf(own),
      " ",
      make("b", {}, percentOf(looks[look][at])),
      " · all of its class ",
      make("b", {}, percentOf(share)),
      ...(name ? [" · ", make("bdi", {}, clean(name))] : []),
    );
  }

  /** How the weight of an example came about. */
  const open = (column, first) => host.open?.({table: `looks/${names[look]}`, column, first});

  cards.forEach((card, at) => {
    card.addEventListener("pointerenter", () => lookAt(at));
    card.addEventListener("pointerleave", () => lookAt(null));
    card.addEventListener("blur", () => lookAt(null));
    card.addEventListener("click", () => open(at));
    card.addEventListener("keydown", event => {
      if (event.key === "Enter") open(at);
    });
  });
  rove(cards, (at, down, across) => clamp(at + (down || across), cards.length), lookAt);
  draw();
  open(looks[look].indexOf(Math.max(...looks[look])), true);
  return {close() {}};
}

/** [[class, share], ..], the largest first. */
function classShares(examples, weights) {
  const found = new Map();
  examples.forEach(({label: own}, at) => found.set(own, (found.get(own) ?? 0) + weights[at]));
  return [...found].sort((one, other) => other[1] - one[1]);
}
