// From scores to weights, as regard/attention/weigh.py and regard/models/ntm/address.py do it, so that settings can be
// changed and the weights follow at once.

/** Settings under which nothing is changed: `hidden` words that are masked, `moved` [word, place] or null. */
export function unchanged({beside, weigh}) {
  return {
    temperature: 1,
    scale: 1,
    hidden: new Set(),
    moved: null,
    centre: beside.centre?.[0] ?? null,
    gate: beside.gate?.[0] ?? null,
    gamma: beside.gamma?.[0] ?? null,
    drawn: null,
    window: weigh.window ?? null,
  };
}

/** How each dimension of a query and a key adds to their score: [{name, values}], whose last values sum to it. */
export function termsOf({score, query}, key) {
  const over = score.name === "scaled_dot" ? 1 / Math.sqrt(query.length) : 1;
  if (score.name === "location") return [];
  if (score.v) {
    const bent = query.map((value, at) => Math.tanh(value + key[at]));
    return [
      {name: "tanh(W q + U k)", values: bent},
      {name: "v × that", values: bent.map((value, at) => value * score.v[at])},
    ];
  }
  return [{name: over === 1 ? "q × k" : `q × k / √${query.length}`, values: query.map((value, at) => over * value * key[at])}];
}

export function softmax(scores) {
  const most = Math.max(...scores);
  if (most === -Infinity) return scores.map(() => 0);
  const powers = scores.map(score => Math.exp(score - most)),
    sum = powers.reduce((total, power) => total + power, 0);
  return powers.map(power => power / sum);
}

/** The words in the order of their places, one of them moved. */
function orderOf(count, moved) {
  const order = Array.from({length: count}, (_, at) => at);
  if (moved) order.splice(moved[1], 0, ...order.splice(moved[0], 1));
  return order;
}

/** {places, scores, steps, weights}: of the words in their order; a step is {name, told, values}, and the values of the
    last one are the weights. `look` is {scores, content, score, weigh, beside}: scores NaN where it may not look, and
    `content` what query and keys alone give. */
export function weighed(look, settings) {
  const count = look.scores.length,
    places = orderOf(count, settings.moved);
  const byPlace = look.score.name === "location",
    windowed = look.weigh.window !== undefined;
  const scores = places.map((word, place) => {
    const shut = !windowed && Number.isNaN(look.scores[place]);
    const own = byPlace ? look.scores[place] : Number.isNaN(look.scores[word]) ? look.content[word] : look.scores[word];
    return shut || settings.hidden.has(word) ? -Infinity : (settings.scale * own) / settings.temperature;
  });
  const steps = (WAYS[look.weigh.name] ?? WAYS.soft)(scores, settings, look.beside);
  return {places, scores, steps, weights: steps.at(-1).values};
}

const SOFTMAX = "Each score becomes a power of e, divided by the sum over the row: all are positive, together 1.";
const WAYS = {
  soft: scores => [{name: "softmax", told: SOFTMAX, values: softmax(scores)}],
  hard(scores, {drawn}) {
    const soft = softmax(scores),
      best = drawn ?? soft.indexOf(Math.max(...soft));
    const one = soft.map((share, at) => Number(at === best && share > 0));
    return [
      {name: "softmax", told: SOFTMAX, values: soft},
      {name: drawn === null ? "likeliest" : "drawn", told: "One place is read alone: the likeliest; in training one is drawn.", values: one},
    ];
  },
  "local-m": (scores, settings) => [inWindow(scores, settings)],
  "local-p"(scores, settings) {
    const inside = inWindow(scores, settings),
      {centre, window} = settings;
    const bell = inside.values.map((share, place) => share * Math.exp(-2 * ((place - centre) / window) ** 2));
    return [
      inside,
      {name: "× bell", told: "Times exp(−(i − p)² / 2σ²), σ half the window: places far from the centre p count less.", values: bell},
    ];
  },
  address(scores, {gate, gamma}, {previous, shift}) {
    const content = softmax(scores),
      gated = content.map((share, at) => gate * share + (1 - gate) * previous[at]);
    const reach = (shift.length - 1) / 2,
      count = content.length;
    const moved = gated.map((_, at) =>
      shift.reduce((sum, chance, move) => sum + chance * gated[(at - (move - reach) + 2 * count) % count], 0),
    );
    return [
      {name: "content", told: "softmax(β cos(k, M)): which places hold something like the key.", values: content},
      {name: "gate", told: "g × content + (1 − g) × the weights of the step before.", values: gated},
      {name: "shift", told: "Moved by −1, 0 or +1 places, as the head says.", values: moved},
      {name: "sharpen", told: "To the power γ, divided by the sum.", values: softmax(moved.map(share => gamma * Math.log(Math.max(share, 1e-38))))},
    ];
  },
};

function inWindow(scores, {centre, window}) {
  const middle = roundHalfEven(centre);
  const inside = scores.map((score, place) => (Math.abs(place - middle) <= window ? score : -Infinity));
  return {name: "in window", told: `A softmax over the places at most ${window} from the centre; the others are not scored.`, values: softmax(inside)};
}

/** As torch rounds. */
function roundHalfEven(value) {
  const low = Math.floor(value);
  return value - low === 0.5 ? low + (low % 2) : Math.round(value);
}

/** sum_i a_i v_i */
export function readOf(weights, places, values) {
  const read = new Float32Array(values[0].length);
  weights.forEach((weight, place) => values[places[place]].forEach((value, at) => (read[at] += weight * value)));
  return read;
}
