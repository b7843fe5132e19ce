// An answer by the shape of its data: a text, a label with probabilities, candidates, numbers.
import {make} from "./dom.js";
import {termOf} from "../views/parts.js";

// Shown otherwise, or a part of the question.
const TOLD = new Set(["id", "input", "file", "prompt", "source", "text", "output", "label", "probabilities", "cut", "unknown", "written",
  "question", "first", "second", "environment", "start"]);
/** The vectors of an answer: [[name, numbers], ..]. */
export function vectorsOf({vector, tokens, vectors, text}) {
  if (vectors) return vectors.map((numbers, at) => [tokens[at], numbers]);
  return vector ? [[[text].flat().join(" "), vector]] : [];
}

const SHOWN = 12;  // bars, rows and numbers of a list

export function percent(share) {
  return `${(100 * share).toFixed(share < .00995 ? 2 : 1)} %`;
}

/** Bars of [name, share]; the name is text. */
export function bars(rows) {
  return make("ol", {class: "bars"}, ...rows.slice(0, SHOWN).map(([name, share]) => {
    const bar = make("span", {class: "gauge"});
    bar.style.setProperty("--share", share);
    return make("li", {}, make("bdi", {class: "what"}, name), bar, make("span", {class: "amount"}, percent(share)));
  }));
}

function words(value) {
  if (typeof value !== "number") return String(value);
  return Number.isInteger(value) ? value.toLocaleString("en") : Number(value.toPrecision(4)).toString();
}

/** What is neither the text nor the label, as short facts; of tables there are files. */
function facts(answer) {
  const list = make("dl", {class: "facts"});
  for (const [name, value] of Object.entries(answer)) {
    const simple = typeof value !== "object", numbers = Array.isArray(value) && value.length && value.every(one => typeof one === "number");
    if (TOLD.has(name) || !(simple || numbers)) continue;
    const text = simple ? words(value) : value.length <= SHOWN ? value.map(words).join(", ") : `${value.length} numbers`;
    list.append(make("div", {}, make("dt", {}, termOf(name, name.replaceAll("_", " "))), make("dd", {dir: "auto"}, text)));
  }
  return list.children.length ? list : null;
}

/** Lists of candidates: [{token | text, probability | score}, ...], or lists of such lists. */
function candidates(answer) {
  const found = [];
  for (const [name, value] of Object.entries(answer)) {
    if (!Array.isArray(value) || !value.length) continue;
    const lists = Array.isArray(value[0]) ? value : [value];
    if (!lists.every(list => list.every(one => typeof one?.probability === "number"))) continue;
    lists.forEach((list, at) => found.push([lists.length > 1 ? `${name} ${at + 1}` : name,
      list.map(one => [one.token ?? one.text, one.probability])]));
  }
  return found;
}

/** Further answers, with their log p: their order is by length and coverage too. */
function others(answer) {
  if (!answer.others?.length) return null;
  return make("ol", {class: "others", "aria-label": "Other answers"}, ...answer.others.map(one =>
    make("li", {}, make("bdi", {}, one.text), " ", make("span", {class: "amount"}, `log p ${words(one.score)}`))));
}

/** What of the input was not read: {cut: {sentences: {read: 16, of: 40}}, unknown: ["ß"]}. */
function unread({cut, unknown}) {
  const lines = [];
  if (cut) {
    const parts = Object.entries(cut).map(([unit, {read, of}]) => `${words(read)} of ${words(of)} ${unit}`);
    lines.push(`Only a part of the input was read: ${parts.join(", ")}.`);
  }
  if (unknown?.length) {
    const kind = unknown.every(part => [...part].length === 1) ? "characters" : "words";
    lines.push(`The model does not know these ${kind}: ${unknown.join(", ")}`);
  }
  return lines.map(line => make("p", {class: "aside unread", dir: "auto"}, line));
}

export function showAnswer(element, answer, asked) {
  const parts = [], lists = candidates(answer), rest = {...answer}, {text = answer.output} = answer;
  if (typeof text === "string" && (text !== asked || "output" in answer)) parts.push(textOf(answer.prompt ?? "", text));
  const shares = Object.entries(answer.probabilities ?? {}).sort((a, b) => b[1] - a[1]);
  if (typeof answer.label === "string") parts.push(make("p", {class: "label", dir: "auto"}, answer.label));
  if (shares.length === 1) parts.push(make("span", {class: "amount"}, percent(shares[0][1])));
  else if (shares.length) parts.push(bars(shares));
  for (const [name, rows] of lists) {
    parts.push(lists.length > 1 ? make("h3", {class: "quiet"}, name) : "", bars(rows));
    delete rest[name.replace(/ \d+$/, "")];
    delete rest.probability;  // of the first
  }
  parts.push(others(answer));
  delete rest.others;
  parts.push(facts(rest), ...unread(answer));
  element.replaceChildren(...parts.filter(Boolean));
}

/** What was written, after what it goes on from. */
export function textOf(prompt, text) {
  return make("p", {class: "text", dir: "auto"}, prompt && make("span", {class: "prompt"}, prompt),
    make("span", {class: "written"}, text));
}
