// Asking the server. A server that restarts is asked again; one that wants its token gets it from the person first.

const WAITS = [300, 700, 1500, 3000, 5000];  // milliseconds before the server is asked again

const GONE = "The server does not answer. Is it still running?";

export class Failure extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }
}

/** Whether this is a saved page, which answers from what it holds (kept.js). */
export const isKept = Boolean(globalThis.regard);
/** Whether a saved page holds any answer at an address, whatever was asked there. */
export const isHeld = address => globalThis.regard.holds(address);
const reach = isKept ? globalThis.regard.fetch : (path, settings) => fetch(path, settings);  // paths are beside the page's own
const signIn = {ask: null, waiting: null, token: "", header: null};

/** `ask()` gives a promise of the token that the person signed in with. */
export function whenSignedOut(ask) {
  signIn.ask = ask;
}

/** The person signs in, which gives a cookie. Where it does not come back, as in a frame of another site without https,
 * each request brings the token itself, until the page is left. */
async function signedIn() {
  if (signIn.token && !signIn.header) {
    signIn.header = {Authorization: `Bearer ${signIn.token}`};
    return;
  }
  signIn.header = null;
  signIn.waiting ??= signIn.ask().then(token => { signIn.token = token; }).finally(() => { signIn.waiting = null; });
  await signIn.waiting;
}

function pause(milliseconds, signal) {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      fail(signal.reason);
    });
  });
}

let tellLost = () => {};

/** `tell(lost)` is told whether the server does not answer at present, and is asked again. */
export function whenLost(tell) {
  tellLost = tell;
}

/** What `read(response)` gives, if the server has answered and is content. */
export async function request(path, settings = {}, read = response => response) {
  try {
    return await persist(path, settings, read);
  } finally {
    tellLost(false);
  }
}

async function persist(path, settings, read) {
  for (let tries = 0; ; tries++) {
    let response;
    try {
      response = await reach(path, signIn.header ? {...settings, headers: {...settings.headers, ...signIn.header}} : settings);
      tellLost(false);
      if (response.ok && path !== "sign-in" && !signIn.header) signIn.token = "";  // the cookie came back
      if (response.ok) return await read(response);
    } catch (error) {
      if (error.name === "AbortError") throw error;
      if (tries === WAITS.length) throw new Failure(GONE);
      tellLost(true);
      await pause(WAITS[tries], settings.signal);
      continue;
    }
    if (response.status === 401 && path !== "sign-in") {
      await signedIn();
      continue;
    }
    if (response.status === 429 && tries < WAITS.length) {
      await pause(WAITS[tries], settings.signal);
      continue;
    }
    throw new Failure(await messageOf(response), response.status);
  }
}

/** What `part(tries)` imports of the page's own script, which is asked for again as requests are. */
export async function loaded(part) {
  try {
    for (let tries = 0; ; tries++) {
      const found = await part(tries).catch(error => {
        if (!(error instanceof TypeError)) throw error;  // it came, and is wrong
      });
      if (found) return found;
      if (tries === WAITS.length) throw new Failure(GONE);
      tellLost(true);
      await pause(WAITS[tries]);
    }
  } finally {
    tellLost(false);
  }
}

async function messageOf(response) {
  try {
    return (await response.json()).error.message;
  } catch {
    return `The server answered with status ${response.status}.`;
  }
}

export function posted(body, signal) {
  return {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body), signal};
}

export async function get(path, signal) {
  return request(path, {signal}, response => response.json());
}

export async function post(path, body, signal) {
  return request(path, posted(body, signal), response => response.json());
}

function brokeOff(error) {
  if (error?.name === "AbortError") throw error;
  throw new Failure("The answer broke off: the server does not answer any more.");
}

/** Server-sent events, each as [name, data]. An `error` event is thrown; a stream that breaks off too. */
export async function* events(path, body, signal) {
  const response = await request(path, posted(body, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const {done, value} = await reader.read().catch(brokeOff);
      if (done) brokeOff();
      text += value;
      const parts = text.split("\n\n");
      text = parts.pop();
      for (const part of parts) {
        const [name, data] = part.split("\n").map(line => line.slice(line.indexOf(":") + 2));
        const found = JSON.parse(data);
        if (name === "error") throw new Failure(found.error.message, found.error.code);
        if (name === "end") return;
        yield [name, found];
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

/** The models, without the images among their examples. */
export const MODELS = "api/models?images=false";

/** Where the page asks for its models: early.js has done so. */
export const modelsAsked = () => document.getElementById("models-asked")?.getAttribute("href") ?? MODELS;

export function modelPath(name) {
  return `api/models/${encodeURIComponent(name)}`;
}

/** A model with all images among its examples, which are asked for once. */
export async function withImages(model) {
  if (!model.partial) return model;
  model.coming ??= get(modelPath(model.name)).finally(() => { model.coming = null; });
  const {tasks} = await model.coming;
  model.tasks.forEach((task, at) => Object.assign(task, tasks[at]));
  return Object.assign(model, {partial: false});
}
