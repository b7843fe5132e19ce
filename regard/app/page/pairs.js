// What an answer can be compared with, each in a plain sentence: found from the runs' own settings and places.
import {systemOf} from "./choose.js";

const FEW = 3;  // settings that are named

/** What is compared: beside another model, these of one model. */
export const WITHIN = {word: "=word", layer: "=layer", head: "=head"};

const looks = model => model.sites.filter(one => one.kind === "attention");

/** How a second model is another than the first: [sentence, rank]; pairs of a low rank teach more. */
export function otherModel(first, second) {
  const [own, others] = [looks(first).length, looks(second).length];
  const gated = second.sites.some(({name}) => name.endsWith(".excite")) && !second.tasks.some(task => task.steps);
  if (own && !others) return [gated ? "a model without attention to places, but with gates of channels" : "a model without attention", 0];
  if (!own && others) return ["a model with attention", 0];
  if (first.about.model !== second.about.model) return [`another system, ${systemOf(second).replace(" · ", " ")}`, 2];
  const names = Object.keys({...first.settings, ...second.settings}).filter(name => first.settings[name] !== second.settings[name]);
  if (!names.length) return ["a model of the same kind, with the same settings", 1];
  const {seed, heads} = second.settings;
  if (names.join() === "seed") return [`the same model, trained from other first weights (seed ${seed} instead of ${first.settings.seed})`, 1];
  if (names.includes("heads") && names.length <= FEW) return [`the same model with ${heads} ${heads === 1 ? "head" : "heads"} instead of ${first.settings.heads}`, 1];
  const told = names.slice(0, FEW).map(name => `${name.replaceAll("_", " ")} ${second.settings[name]} instead of ${first.settings[name]}`);
  return [`the same kind of model, with ${names.length > FEW ? "other settings" : told.join(", ")}`, 1];
}

/** Another place of attention of the same kind, else any other. */
function sibling({sites, alignment}) {
  const kind = name => name.replace(/\d+/g, ""), usual = sites.find(one => one.name === alignment) ?? sites[0];
  const at = sites.indexOf(usual), order = [...sites.slice(0, at).reverse(), ...sites.slice(at + 1)];
  return order.find(one => one.kind === "attention" && kind(one.name) === kind(usual.name)) ?? order.find(one => one.kind === usual.kind) ?? order[0];
}

/** The value of the pair that a second panel shows. */
export const valueOf = ({model, task, within}) => within ? WITHIN[within] : `${model}/${task}`;

/** All that the first panel can be compared with, what teaches most first: attention beside none, then models of one
    kind, then others: [{value, text, said(first, second), rank, state}]. `fits(task)`: can be
    asked the same. */
export function pairsOf(models, {model, task, state}, asked, fits) {
  const found = [];
  for (const other of models) {
    if (other === model) continue;
    const [said, rank] = otherModel(model, other);
    const strange = model.settings.vocabulary === other.settings.vocabulary ? 0 : .5;  // it may know other words
    for (const one of other.tasks.filter(fits)) {
      const far = one.task !== task.task;
      found.push({value: `${other.name}/${one.task}`, text: `${other.name}: ${said}`, rank: far ? 5 : rank + strange, state: {model: other.name, task: one.task},
        said: () => `The same question, by ${said}.`});
    }
  }
  const own = {model: model.name, task: task.task}, usual = model.sites.find(one => one.name === model.alignment);
  const word = task.inputs.schema.type === "integer" ? "number" : "word";
  if (typeof asked === "string" && !task.inputs.drawn && task.inputs.schema.format !== "byte")
    found.push({value: WITHIN.word, text: word === "word" ? "another word in the text" : "another number", rank: 3, state: {...own, site: state.site, within: "word", text: asked},
      said: (first, second) => second.isChanged ? `The same model, before and after the ${word === "word" ? "text" : word} is changed.`
        : `Change ${word === "word" ? "a word of the second text" : "the second number"}: what else does it change?`});
  const beside = model.sites.length > 1 && usual && sibling(model);
  if (beside) found.push({value: WITHIN.layer, text: "another layer", rank: 4, state: {...own, site: beside.name, within: "layer"},
    said: (...both) => `The same answer, seen in two places: ${both.map(({state}) => model.sites.find(one => one.name === (state.site || model.alignment))?.said || state.site).join(", and ")}.`});
  if (usual?.heads > 1) found.push({value: WITHIN.head, text: "one head alone", rank: 4, state: {...own, site: usual.name, within: "head", view: {site: usual.name, head: 0}},
    said: () => `The same answer: ${usual.heads} heads together, and one of them alone.`});
  return found.sort((one, other) => one.rank - other.rank);
}
