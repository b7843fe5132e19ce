// Options of a task, as controls made from their JSON schemas.
import {field, make} from "./dom.js";
import {episodeInput} from "./images.js";

const UNLESS = "as the run says";
const LONG = 2;  // lines, at least, of a text that is part of the question

/** Whether an option is examples of classes, which the question is nothing without. */
export function isAsked({schema}) {
  return schema.type === "object";
}

function isSame(one, other) {
  return JSON.stringify(one) === JSON.stringify(other);
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
  const made = make("textarea", {rows: 1, placeholder: "none"}), many = schema.type === "array";  // one text a line
  const lines = () => made.value.split("\n").filter(Boolean).map(line => line.replaceAll("\\n", "\n"));
  const written = text => text.replaceAll("\n", "\\n");
  return {made, read: () => made.value === "" ? null : many ? lines() : made.value,
    write: value => { made.value = Array.isArray(value) ? value.map(written).join("\n") : value ?? ""; }};
}

function controlOf(schema) {
  if (schema.enum) return choiceControl(schema.enum, schema);
  if (schema.type === "boolean") return choiceControl([true, false], schema);
  if (schema.type === "integer" || schema.type === "number") return numberControl(schema);
  return textControl(schema);
}

/** {asked, details, values}: elements of those that are part of the question and of the others. `own` keeps examples that
 * the person gave, by the names of their options, also for the next form. */
export function optionsForm({options, example_options: examples}, own, changed, failed) {
  const read = {}, write = {}, asked = [], details = [], episodes = options.filter(isAsked).map(one => one.name);
  for (const option of options) {
    if (isAsked(option)) {
      const episode = episodeInput(option.name, option.schema.description ?? option.help, () => {
        own[option.name] = episode.value;
        changed();
      }, failed);
      asked.push(episode.element);
      read[option.name] = () => episode.value;
      write[option.name] = value => episode.set(value);
    } else {
      const control = controlOf(option.schema);
      control.made.addEventListener("change", changed);
      if (option.asked) control.made.rows = LONG;
      (option.asked ? asked : details).push(field(option.name.replaceAll("_", " "), control.made, option.schema.description ?? option.help));
      [read[option.name], write[option.name]] = [control.read, control.write];
    }
  }
  return {
    asked, details,
    get values() {
      const found = Object.entries(read).map(([name, value]) => [name, value()]);
      return Object.fromEntries(found.filter(([, value]) => value !== null));
    },
    /** The same for an address, which cannot hold images: `true` for those of the person, nothing for the run's own. */
    get state() {
      const found = this.values, mine = episodes.filter(name => name in found && !isSame(found[name], examples[name]));
      for (const name of episodes) delete found[name];
      return {...found, ...Object.fromEntries(mine.map(name => [name, true]))};
    },
    /** What an address says. */
    restore(state) {
      const images = episodes.map(name => [name, state[name] ? own[name] : examples[name]]);
      this.set({...state, ...Object.fromEntries(images)});
    },
    set(values) {
      for (const name of Object.keys(write)) write[name](values[name]);
    },
  };
}
