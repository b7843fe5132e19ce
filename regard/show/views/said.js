// Names and words that a person would say: of layers and heads, and what the terms beside a picture mean.

const ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth"];
const ENDINGS = {one: "st", two: "nd", few: "rd", other: "th"};
const kinds = new Intl.PluralRules("en", {type: "ordinal"});
const PARTS = {
  // of the names of modules
  encoder: "encoder",
  decoder: "decoder",
  cross: "looking at the source",
  attend: "looking",
  memory: "memory",
  words: "words",
  sentences: "sentences",
  text: "text",
  excite: "gates of channels",
  cell: "gates of the cell",
  beta: "how much the image counts",
};

/** What stands beside answers and pictures, in one sentence each. */
export const TERMS = {
  attention: "For each word, how much the model looks at every other: numbers from 0 to 1 that add up to 1.",
  weight: "How much of a place is read, from 0 to 1; the weights of a row add up to 1.",
  score: "How well a query and a key match, before the softmax. Of a whole answer: the logarithm of its probability, 0 at best.",
  softmax: "Turns scores into positive numbers that add up to 1; a larger score gets a larger share.",
  head: "One of several looks that a layer takes at once, each with its own query, keys and values.",
  gate: "A number from 0 (shut) to 1 (open) by which something is multiplied.",
  rollout: "The attention of all layers multiplied together: which part of the input reached the end.",
  support: "The labelled examples that the model is shown before it is asked.",
  beam: "How many beginnings of an answer are kept and continued at the same time.",
  temperature: "Below 1 the likeliest words win more often; above 1 chance has more to say.",
  window: "The places near a centre that are looked at; all others are left out.",
  centre: "The place around which local attention looks.",
  memory: "What is looked at: words that were read, parts of an image, or cells that can be written.",
  "log p": "The logarithm of a probability: 0 is certain, more negative is less likely.",
  finished: "Whether the text came to its end by itself, or was cut at the length that was asked for.",
  reward: "What an agent was paid in all.",
  best: "What the best choice would have been paid on average.",
  wrong: "How many bits of the answer differ from what was wanted.",
  target: "What the answer should be.",
  "</s>": "The end of a text, as a token that models read and write.",
  "<s>": "The start of a text.",
  "<unk>": "A word that the model does not know.",
  "<pad>": "Filling, which is never looked at.",
  "[CLS]": "A token in front of the text whose state stands for all of it.",
  "[SEP]": "A token between two texts and at the end.",
  "[MASK]": "A word that was hidden, for the model to guess.",
  "∅": "A token without letters.",
};

/** "first" of 1, "21st" of 21. */
function ordinal(number) {
  return ORDINALS[number - 1] ?? number + ENDINGS[kinds.select(number)];
}

/** "second layer of the decoder, looking at the source" of decoder.1.cross; "" where nothing can be said. */
export function siteName(name) {
  const parts = name.split("."),
    at = parts.findIndex(part => /^\d+$/.test(part)),
    outer = PARTS[parts[0]] ?? "",
    last = parts.at(-1);
  const layer = at < 0 ? "" : `${ordinal(Number(parts[at]) + 1)} layer`;
  const whole = outer && at > 0 ? `${layer} of the ${outer}` : layer;
  if (last === "cross") return join(whole, PARTS.cross);
  if (last === "attend" && parts[0] === "encoder") return join(whole, "looking at its own text");
  if (last === "attend" && parts[0] === "decoder") return join(whole, "looking at what was written");
  if (last === "attend" && at >= 0) return join(whole, "looking at its own input");
  if (parts.includes("pool")) return `which ${PARTS[parts[0]] === "sentences" ? "sentences" : "words"} count`;
  if (last === "attend") return parts[0] === "memory" ? "heads at the memory" : "looking at the input";
  if (last === "excite") return join(parts.slice(1, -1).map(part => Number(part) + 1).join("."), PARTS.excite, "block ");
  const [, layered, reversed] = last.match(/^l(\d+)(_reverse)?$/) ?? [];
  if (layered) return join(join(outer, `gates of layer ${Number(layered) + 1}`), reversed && "read backwards");
  if (/^\d+$/.test(last)) return join(whole, "its gates");
  return PARTS[last] ?? "";
}

function join(first, second, before = "") {
  return [first && before + first, second].filter(Boolean).join(", ");
}

/** The name a person would say, with that of the code beside it. */
export function siteTitle(name) {
  const said = siteName(name);
  return said ? `${said} · ${name}` : name;
}
