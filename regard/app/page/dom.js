// Elements. Strings among the children are text, never markup.

export function make(kind, attributes = {}, ...children) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return made;
}

export function button(text, press, attributes = {}) {
  return make("button", {type: "button", onclick: press, ...attributes}, text);
}

let count = 0;

/** A name for an element that labels another. */
export function newId(name) {
  return `${name}-${++count}`;
}

/** A control with its name before it. */
export function field(name, control, help = "") {
  control.id ||= newId("field");
  const told = help && make("small", {id: newId("help")}, help);
  if (told) control.setAttribute("aria-describedby", told.id);
  return make("div", {class: "setting"}, make("label", {for: control.id, title: help || null}, name), control, told || null);
}

/** A select of [value, text] pairs, or of {name, options} groups of them. */
export function select(options, chosen, choose, attributes = {}) {
  const made = make("select", {...attributes, onchange: () => choose(made.value)});
  const add = (parent, [value, text]) => parent.append(make("option", {value, selected: value === chosen}, text));
  for (const one of options) {
    if (Array.isArray(one)) add(made, one);
    else if (one.options.length) {
      const group = make("optgroup", {label: one.name});
      one.options.forEach(option => add(group, option));
      made.append(group);
    }
  }
  return made;
}

/** What the server says, which begins as a part of a line in a terminal. */
export function asSentence(text) {
  return `${text[0].toUpperCase()}${text.slice(1)}${/[.!?]$/.test(text) ? "" : "."}`;
}
