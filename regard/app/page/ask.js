// The question: a text, an image or a number, with examples and options.
import {button, field, make, newId, select} from "./dom.js";
import {imageInput} from "./images.js";
import {isAsked, optionsForm} from "./options.js";

const TAB = "\t", ORDER = ["first", "second"];
const CHIP = 42;  // characters of an example on its button
const MISSING = "Give images of each class first. An address cannot hold them: choose them here again.";

const kindOf = ({inputs: {schema}}) => schema.format ?? schema.type;

/** Whether an input of one task makes sense for another: any image does; a text where both are of the same data, as their
    examples tell, or where a run has none of its own. */
export function alike(one, other) {
  if (one === other || (kindOf(one) === "byte" && kindOf(other) === "byte")) return true;
  if (kindOf(one) !== kindOf(other)) return false;
  const own = new Set(one.inputs.examples);
  return other.inputs.examples.some(example => own.has(example)) || (one.task === other.task && (!one.about || !other.about));
}

/** A short text with what cannot be seen taken out. */
function chip(text) {
  const short = String(text).replace(/\s+/g, " ").trim();
  return [...short].length > CHIP ? `${[...short].slice(0, CHIP - 1).join("")}…` : short;
}

/** The inputs that a text of the form stands for; none: one is drawn. */
export function inputsOf({inputs: {schema, drawn}}, text) {
  if (schema.type === "array") return [text.split(TAB)];
  if (schema.type === "integer" ? text === "" : text.trim() === "" && drawn) return [];
  return [schema.type === "integer" ? Number(text) : text];
}

export function textInput(task, changed, submit) {
  const number = task.inputs.schema.type === "integer", pair = task.inputs.schema.type === "array", {drawn} = task.inputs;
  const examples = task.inputs.examples.map(example => Array.isArray(example) ? example.join(TAB) : String(example));
  const boxes = [...Array(pair ? task.inputs.schema.minItems : 1)].map(() => number
    ? make("input", {type: "number", min: task.inputs.schema.minimum ?? null})
    : make("textarea", {rows: 1, spellcheck: "false", dir: "auto", placeholder: drawn ? "empty: one is drawn" : ""}));
  const text = () => boxes.map(box => pair ? box.value.replaceAll(TAB, " ") : box.value).join(TAB);
  const write = value => {
    const parts = pair ? value.split(TAB) : [value];
    boxes.forEach((box, at) => { box.value = parts[at] ?? ""; });
  };
  for (const box of boxes) box.addEventListener("keydown", event => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    submit();
  });
  const tried = make("div", {class: "tried", role: "group", "aria-label": "Examples"});
  examples.forEach(example => tried.append(button(make("bdi", {}, chip(example)), () => {
    write(example);
    changed();
  }, {class: "chip"})));
  const labels = pair ? ORDER.map(one => `${task.task}: ${one} text`) : [number ? `${task.inputs.what.replace(/s$/, "")} number` : `${task.task}: ${task.inputs.what}`];
  return {
    element: make("div", {class: number ? "text-input number" : "text-input"}, ...boxes.map((box, at) => field(labels[at], box))),
    tried: examples.length > 1 ? tried : "",
    get state() { return {text: text()}; },
    get values() { return inputsOf(task, text()); },
    url: null,
    isMissing: () => boxes.some(box => box.value.trim() === "") && !drawn && !task.continues,
    missing: pair ? "Type both texts first." : "Type something first.",
    set(next) { write(next.text ?? examples[next.example ?? 0] ?? ""); },
    isExample: () => examples.includes(text()),
    close() {},
  };
}

/** The form. `submit()`: the person asks; `stop()`: no longer; `chosen(task)`: another of the model's tasks. */
export class Ask {
  constructor(form, {submit, stop, chosen}) {
    Object.assign(this, {form, submit, stop, chosen, input: null, options: null, task: null, own: {}});
    this.typed = [];  // what the person gave, as [task, state], the latest first
    this.told = make("p", {class: "error", role: "alert", id: newId("told")});
    form.addEventListener("submit", event => {
      event.preventDefault();
      this.submit();
    });
  }

  /** What the person gave stays for tasks that it makes sense for. */
  remember() {
    if (!this.input) return;
    this.typed = this.typed.filter(([task]) => !alike(task, this.task));
    if (!this.input.isExample()) this.typed.unshift([this.task, this.input.state]);
  }

  show(model, task, state = null) {
    this.remember();
    const [, typed] = this.typed.find(([other]) => alike(other, task)
      || (model.tasks.includes(other) && kindOf(other) === kindOf(task))) ?? [];
    this.input?.close();
    this.task = task;
    const failed = message => this.fail(message), submit = () => this.submit();
    this.input = task.inputs.schema.format === "byte" ? imageInput(task.inputs.examples, this.own, submit, failed)
      : textInput(task, submit, submit);
    this.options = optionsForm(task, this.own, () => this.changedOptions(), failed);
    this.options.set(task.example_options);
    this.input.set(state ?? typed ?? {example: 0});
    const verbs = model.tasks.map(one => [one.task, one.task]);
    const run = make("button", {type: "submit", class: "main"}, task.task[0].toUpperCase() + task.task.slice(1));
    this.ending = button("Stop", () => this.stop(), {class: "plain", hidden: true});
    const {details} = this.options;
    this.form.replaceChildren(
      verbs.length > 1 ? field("Task", select(verbs, task.task, verb => this.chosen(verb))) : "",
      make("div", {class: "box"}, this.input.element, make("div", {class: "go"}, run, this.ending)),
      ...this.options.asked, this.told,
      make("div", {class: "under"}, this.input.tried,
        details.length ? make("details", {class: "options"}, make("summary", {}, "Options"),
          make("div", {class: "settings"}, ...details)) : ""));
    this.fail("");
  }

  /** More images of the task have come. */
  addExamples() {
    this.input.addExamples?.(this.task.inputs.examples);
  }

  changedOptions() {
    this.fail("");
  }

  /** What a task needs and is not there, in words; "": all is there. */
  get missing() {
    const needs = this.task.options.filter(isAsked);
    if (this.input.isMissing()) return this.input.missing;
    const text = this.task.options.find(one => one.asked && !isAsked(one) && !this.options.values[one.name]?.trim());
    if (text) return `Give the ${text.name} first.`;
    return needs.every(one => one.name in this.options.values) ? "" : MISSING;
  }

  /** Whether images of the person are asked about, which an address cannot hold. */
  get hasOwnImages() {
    return Boolean(this.input.state.image) || this.task.options.some(one => isAsked(one) && one.name in this.options.state);
  }

  fail(message) {
    this.told.textContent = message;
  }

  busy(now) {
    this.ending.hidden = !now;
    this.form.setAttribute("aria-busy", String(now));
  }
}
