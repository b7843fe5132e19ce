// A page without a server: it answers from what was kept when it was made. This script is no module: it runs before them.
globalThis.regard = (() => {
  const MISSING = "This page was saved and has no server behind it: it holds its examples, where the models looked for them, and weights that were open. "
    + "`regard serve` answers anything.";
  const own = JSON.parse(document.querySelector("#kept").textContent), known = new Map(), loading = new Map();

  /** The same text for the same question, in whatever order it names things. */
  function keyOf(address, body) {
    const {pathname, searchParams} = new URL(address, "http://kept/");
    searchParams.sort();
    const sorted = (_, value) => value && typeof value === "object" && !Array.isArray(value)
      ? Object.fromEntries(Object.keys(value).sort().map(name => [name, value[name]])) : value;
    const {stream, look, ...asked} = body ?? {};
    return JSON.stringify([pathname, searchParams.toString(), asked], sorted);
  }

  /** Entries are [address, body or null, answer, status]. */
  function keep(entries) {
    for (const [address, body, answer, status] of entries) known.set(keyOf(address, body), {answer, status});
  }

  /** The answers of a model that lie in a file of their own. */
  function load(model) {
    if (!loading.has(model)) {
      loading.set(model, new Promise(done => {
        const script = document.createElement("script");
        Object.assign(script, {src: own.files[model], onload: done, onerror: done});
        document.head.append(script);
      }));
    }
    return loading.get(model);
  }

  function answered({model, answers}) {
    const events = [...answers.map((one, input) => ["answer", {...one, input}]), ["end", {model}]];
    return events.map(([name, data]) => `event: ${name}\ndata: ${JSON.stringify(data)}\n\n`).join("");
  }

  async function fetchKept(address, {body} = {}) {
    const model = decodeURIComponent(address.match(/^api\/models\/([^/]+)/)?.[1] ?? "");
    if (own.files?.[model]) await load(model);
    const asked = body ? JSON.parse(body) : null, found = known.get(keyOf(address, asked))
      ?? {answer: {error: {message: MISSING, code: 501}}, status: 501};
    const text = asked?.stream && found.status === 200 ? answered(found.answer) : JSON.stringify(found.answer);
    return new Response(text, {status: found.status});
  }

  keep(own.answers);
  if (own.hash && !location.hash) history.replaceState(null, "", own.hash);
  /** Whether it holds an answer at this address, whatever was asked. */
  function holds(address) {
    const {pathname} = new URL(address, "http://kept/");
    return [...known.keys()].some(key => JSON.parse(key)[0] === pathname);
  }

  return {fetch: fetchKept, keep, holds};
})();
