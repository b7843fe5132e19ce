// Options of a task, as controls made from their JSON schemas.
import {field, make} from "./dom.js";
import {episodeInput} from "./images.js";

const UNLESS = "as the run says";

/** Whether an option is part of the question and not a detail: examples of classes. */
export function isAsked({schema}) {
  return schema.type === "object";
}

function numberControl(schema) {
  const made = make("input", {type: "number", min: schema.minimum, max: schema.maximum, placeholder: schema.default ?? UNLESS,
    step: schema.type === "integer" ? 1 : "any"});
  return {made, read: () => made.value === "" ? null : Number(made.value), write: value => { made.value = value ?? ""; }};
}

function choiceControl(values, schema) {
  const made = make("select", {}, make("option", {value: ""}, schema.default === undefined ? UNLESS : `${schema.default}`));
  values.forEach((value, at) => made.append(make("option", {value: String(at)}, String(value))));
  return {made, read: () => made.value === "" ? null : values[made.value],
    write: value => { made.value = values.includes(value) ? String(values.indexOf(value)) : ""; }};
}

function textControl(schema) {
  const made = make("textarea", {rows: 1, placeholder: "none"}), many = schema.type === "array";
  const lines = () => made.value.split("\n").filter(Boolean);
  return {made, read: () => made.value === "" ? null : many ? lines() : made.value,
    write: value => { made.value = Array.isArray(value) ? value.join("\n") : value ?? ""; }};
}

function controlOf(schema) {
  if (schema.enum) return choiceControl(schema.enum, schema);
  if (schema.type === "boolean") return choiceControl([true, false], schema);
  if (schema.type === "integer" || schema.type === "number") return numberControl(schema);
  return textControl(schema);
}

/** {asked, details, values}: elements of those that are part of the question and of the others. */
export function optionsForm(options, changed, failed) {
  const read = {}, write = {}, asked = [], details = [];
  for (const option of options) {
    if (isAsked(option)) {
      const episode = episodeInput(option.name, option.schema.description ?? option.help, changed, failed);
      asked.push(episode.element);
      read[option.name] = () => episode.value;
      write[option.name] = value => episode.set(value);
    } else {
      const control = controlOf(option.schema);
      control.made.addEventListener("change", changed);
      details.push(field(option.name.replaceAll("_", " "), control.made, option.help));
      [read[option.name], write[option.name]] = [control.read, control.write];
    }
  }
  return {
    asked, details,
    get values() {
      const found = Object.entries(read).map(([name, value]) => [name, value()]);
      return Object.fromEntries(found.filter(([, value]) => value !== null));
    },
    set(values) {
      for (const name of Object.keys(write)) write[name](values[name]);
    },
  };
}
