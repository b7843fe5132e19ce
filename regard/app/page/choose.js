// The list of models: what each is called, what it does and which system it is.
import {make} from "./dom.js";

const MANY = 12;  // models, above which they can be searched

/** What a model does, in a few words. */
function aboutOf(model) {
  const [first] = model.tasks ?? [];
  return first ? first.about || first.summary : model.error;
}

/** "Bahdanau, Cho & Bengio 2015" of a paper's full name. */
export function systemOf(model) {
  const {model: name, paper = ""} = model.about ?? {};
  const year = paper.match(/\b(19|20)\d\d\b/);
  return [name, year?.[0]].filter(Boolean).join(" · ");
}

export function modelList(element, models, choose) {
  const cards = new Map();
  const list = make("div", {class: "model-cards", role: "radiogroup", "aria-label": "Model"});
  for (const model of models) {
    const input = make("input", {type: "radio", name: "model", value: model.name, disabled: model.status === "broken"});
    input.addEventListener("change", () => choose(model.name));
    const card = make("label", {class: "model-card"}, input, make("strong", {}, model.name),
      make("span", {class: "about"}, aboutOf(model)), make("span", {class: "system"}, systemOf(model)));
    cards.set(model.name, {card, input, text: card.textContent.toLowerCase()});
    list.append(card);
  }
  const parts = [list];
  if (models.length > MANY) {
    const search = make("input", {type: "search", placeholder: "Find a model", "aria-label": "Find a model"});
    search.addEventListener("input", () => {
      for (const {card, text} of cards.values()) card.hidden = !text.includes(search.value.toLowerCase());
    });
    parts.unshift(search);
  }
  element.replaceChildren(...parts);
  element.hidden = models.length < 2;
  return {
    mark(name) {
      const one = cards.get(name);
      if (!one) return;
      one.input.checked = true;
      const {offsetLeft, offsetTop, offsetWidth, offsetHeight} = one.card;  // scrollIntoView would move the focus
      list.scrollLeft = offsetLeft - (list.clientWidth - offsetWidth) / 2;
      element.scrollTop = offsetTop - (element.clientHeight - offsetHeight) / 2;
    },
  };
}
