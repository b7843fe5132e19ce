// Images with their captions under the headings of their grades; typing shows only the captions that have the text.

import {clean, enter, headingOf, make} from "./parts.js";

export function show(element, data, host = {}) {
  const input = make("input", {type: "search", value: host.state?.text ?? ""}),
    count = make("span", {"aria-live": "polite"});
  const sections = data.sections.map(section => {
    const cards = section.entries.map(cardOf);
    return {
      cards,
      box: make(
        "section",
        {},
        make("p", {class: "sub"}, section.grade, " ", make("span", {class: "note"}, section.note)),
        make("div", {class: "cards"}, ...cards.map(card => card.box)),
      ),
    };
  });

  function filter() {
    const wanted = input.value.trim().toLowerCase();
    for (const {cards, box} of sections) {
      for (const card of cards) card.box.hidden = !card.text.includes(wanted);
      box.hidden = cards.every(card => card.box.hidden);
    }
    const left = sections.flatMap(({cards}) => cards).filter(card => !card.box.hidden).length;
    count.textContent = wanted ? `${left} of ${sections.flatMap(({cards}) => cards).length}` : "";
  }

  input.addEventListener("input", () => {
    filter();
    host.changed?.({...host.state, text: input.value});
  });
  enter(element, "sheet");
  element.append(
    ...headingOf(data, host),
    make("p", {class: "note"}, "Bold: the model's caption; grey: references."),
    make("div", {class: "tools"}, make("label", {class: "field"}, "Captions with", input), count),
    ...sections.map(({box}) => box),
  );
  filter();
  return {close() {}};
}

function cardOf({image, caption, references, score}) {
  const lines = caption.split("\n").map(line => clean(line) || "(no words)"),
    [first, ...others] = references.map(clean);
  const reference = text => make("p", {class: "reference", dir: "auto"}, text);
  const more = others.length
    ? [make("details", {}, make("summary", {}, `${others.length} more`), ...others.map(reference))]
    : [];
  return {
    text: caption.toLowerCase(),
    box: make(
      "figure",
      {class: "card"},
      make("img", {src: image, alt: ""}),
      make(
        "figcaption",
        {},
        ...lines.map(line => make("p", {class: "caption", dir: "auto"}, line)),
        make("p", {class: "score"}, score),
        ...(first ? [reference(first)] : []),
        ...more,
      ),
    ),
  };
}
