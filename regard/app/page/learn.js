// The tab Learn: the examples of the gallery. What a reader types or moves is sent, and the picture drawn anew.
import {Failure, get, post, whenSignedOut} from "./api.js";
import {field, make} from "./dom.js";
import {draw} from "./look.js";
import {askForToken} from "./sign_in.js";
import {themeButton} from "./theme.js";
import {inShades} from "../views/parts.js";

const SOON = 300, AGAIN = 1000;  // milliseconds: after a change, and between questions whether an example is made
const find = id => document.getElementById(id);
let shown = null;  // what stops when another example is opened

// -- text

/** An element of the server's own SVG; `drop` is how far it lies below the line. */
function equation({svg, drop}) {
  const made = new DOMParser().parseFromString(svg, "text/html").body.firstChild;
  made.style.verticalAlign = `${drop}em`;
  return made;
}

const SPANS = {text: ({words}) => inShades(words), code: ({words}) => make("code", {}, words),
  stress: ({words}) => make("em", {}, words), math: equation};
const inline = spans => spans.flatMap(span => SPANS[span.kind](span));
const BLOCKS = {
  text: ({spans}) => make("p", {}, ...inline(spans)),
  list: ({entries}) => make("ul", {}, ...entries.map(entry => make("li", {}, ...inline(entry)))),
  math: block => make("div", {class: "scrolls"}, equation(block)),
};
const told = blocks => make("div", {class: "prose"}, ...blocks.map(block => BLOCKS[block.kind](block)));

function code(text, name = "The code") {
  return make("details", {}, make("summary", {}, name), make("pre", {tabindex: 0}, make("code", {}, text)));
}

// -- results

function table({title, cells: [head, ...rows], notes}, name) {
  const made = make("table", {}, title && make("caption", {}, title),
    make("tr", {}, ...head.map(cell => cell ? make("th", {scope: "col"}, cell) : make("td"))),
    ...rows.map(([name, ...cells]) => make("tr", {}, make("th", {scope: "row"}, name), ...cells.map(cell => make("td", {}, cell)))));
  return [make("div", {class: "scrolls", tabindex: 0, role: "region", "aria-label": name}, made),
    notes && make("p", {class: "notes"}, notes)];
}

function plot({title, svg}, name) {
  return [make("img", {class: "chart", alt: title || name, src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`})];
}

async function showResult(place, result, name) {
  if (result.kind === "table" || result.kind === "plot") {
    place.replaceChildren(...(result.kind === "table" ? table : plot)(result, name).filter(Boolean));
    return;
  }
  let drawing = place.firstElementChild;
  if (!drawing?.classList.contains("regard")) place.replaceChildren(drawing = make("div"));
  await draw(drawing, result, {level: 4, inText: true});
}

// -- inputs

/** A control for each input; `changed(values)` is called a little after the last change. */
function inputs(step, changed) {
  const values = Object.fromEntries(step.inputs.map(one => [one.name, one.default]));
  let waiting = null;
  const controls = step.inputs.map(one => {
    const text = typeof one.default === "string", value = make("output", {class: "amount"}, String(one.default));
    const control = text ? make("input", {type: "text", value: one.default, maxlength: one.longest, autocomplete: "off"})
      : make("input", {type: "range", min: one.least, max: one.most, step: one.step, value: one.default});
    control.addEventListener("input", () => {
      values[one.name] = text ? control.value : Number(control.value);
      value.textContent = control.value;
      clearTimeout(waiting);
      waiting = setTimeout(() => changed(values), SOON);
    });
    const made = field(one.name, control);
    if (!text) made.append(value);
    return made;
  });
  return make("div", {class: "inputs"}, ...controls);
}

function section(name, step) {
  if (!step.result) return code(step.code, step.name ? `${step.name}()` : "Imports and constants");
  const place = make("div", {class: "result"}), error = make("p", {class: "error", role: "alert"});
  let asking = null;
  const ask = async values => {
    asking?.abort();
    asking = new AbortController();
    const {signal} = asking;
    try {
      const result = await post(`api/gallery/${name}/${step.name}`, {values}, signal);
      error.textContent = "";
      await showResult(place, result, step.heading);
    } catch (failure) {
      if (signal.aborted) return;
      if (!(failure instanceof Failure)) throw failure;
      error.textContent = failure.message;
    }
  };
  const made = make("section", {}, make("h3", {}, step.heading), told(step.text),
    step.inputs.length ? inputs(step, ask) : null, error, place, code(step.code));
  made.begin = () => showResult(place, step.result, step.heading);
  return made;
}

/** The same example as a file. */
function notebook({name, notebook}) {
  const address = URL.createObjectURL(new Blob([notebook], {type: "application/x-ipynb+json"}));
  return make("p", {}, make("a", {href: address, download: `${name}.ipynb`}, "The same as a notebook"));
}

// -- pages

async function fetched(name, signal, place) {
  for (;;) {
    const found = await get(`api/gallery/${name}`, signal);
    if (!found.making) return found;
    place.replaceChildren(make("h2", {}, found.title),
      make("p", {role: "status"}, `This is computed now, on this machine, which takes about ${found.seconds} seconds: ${found.making} …`));
    await new Promise(done => setTimeout(done, AGAIN));
    signal.throwIfAborted();
  }
}

async function show(name) {
  shown?.abort();
  const stopped = shown = new AbortController(), place = find("lesson");
  for (const link of find("lessons").querySelectorAll("a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  try {
    const found = await fetched(name, stopped.signal, place);
    const sections = found.steps.map(step => section(name, step));
    place.replaceChildren(make("h2", {}, found.title), told(found.text), ...sections,
      make("h3", {}, "Try"), told(found.try), make("h3", {}, "In the package"), told(found.where), notebook(found));
    for (const one of sections) await one.begin?.();
    place.dataset.shown = name;
  } catch (failure) {
    if (stopped.signal.aborted) return;
    if (!(failure instanceof Failure)) throw failure;
    place.replaceChildren(make("p", {class: "error", role: "alert"}, failure.message));
  }
}

async function start() {
  whenSignedOut(askForToken);
  find("actions").replaceChildren(themeButton());
  find("skip").addEventListener("click", event => {
    event.preventDefault();  // the address stays that of the example
    find("lesson").focus();
  });
  const {examples} = await get("api/gallery");
  find("lessons").replaceChildren(...examples.map(one => make("li", {}, make("a", {href: `#${one.name}`}, one.title))));
  const open = () => show(examples.find(one => `#${one.name}` === location.hash)?.name ?? examples[0].name);
  window.addEventListener("hashchange", open);
  await open();
}

start().catch(failure => {
  if (!(failure instanceof Failure)) throw failure;
  find("lesson").replaceChildren(make("p", {class: "error", role: "alert"}, failure.message));
});
