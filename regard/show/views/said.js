// What the terms beside a picture mean, and the names of layers as a person would say them, which come with the data.

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

/** A title with the names of layers as a person would say them, and their names in the code. `said`: these, by those. */
export function spokenTitle(title, said = {}) {
  const codes = Object.keys(said).filter(code => title.includes(code)).sort((one, other) => other.length - one.length);
  return {title: codes.reduce((text, code) => text.replaceAll(code, said[code]), title), code: codes.join(", ")};
}

/** Both in one line. */
export function siteTitle(name, said) {
  const {title, code} = spokenTitle(name, said);
  return code ? `${title} · ${code}` : title;
}
