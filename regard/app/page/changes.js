// What of a text is also in another, in the same order.
import {make} from "./dom.js";

/** Which parts of a text another text has in the same order, as [part, is it there?]; words, or letters of a text without. */
export function kept(text, other) {
  const parts = one => one.match(/\s/) ? one.split(/(\s+)/) : [...one];
  const [own, others] = [parts(text), parts(other)], same = Array.from({length: own.length + 1}, () => new Uint16Array(others.length + 1));
  for (let at = own.length - 1; at >= 0; at--)
    for (let to = others.length - 1; to >= 0; to--)
      same[at][to] = own[at] === others[to] ? same[at + 1][to + 1] + 1 : Math.max(same[at + 1][to], same[at][to + 1]);
  let to = 0;
  return own.map((part, at) => {
    while (to < others.length && own[at] !== others[to] && same[at][to + 1] === same[at][to]) to++;
    const there = to < others.length && own[at] === others[to];
    if (there) to++;
    return [part, there];
  });
}

/** The text with what another has not marked. */
export function marked(text, other) {
  return kept(text, other).map(([part, there]) => there ? part : make("mark", {}, part));
}
