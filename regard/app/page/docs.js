// The page about the API: every route of openapi.json, with what it takes, and a call to try in a shell.
import {Failure, get, whenSignedOut} from "./api.js";
import {make} from "./dom.js";
import {askForToken} from "./sign_in.js";
import {themeButton} from "./theme.js";

const KINDS = ["oneOf", "anyOf"], FEW = 12;  // names that are told of a choice
const find = id => document.getElementById(id);

/** A schema in a few words: integer, 1 to 16. */
function wordsOf(schema) {
  const either = KINDS.flatMap(kind => schema[kind] ?? []);
  if (either.length) return either.map(wordsOf).join(", or ");
  if (schema.enum) return schema.enum.slice(0, FEW).map(String).join(" | ") + (schema.enum.length > FEW ? " | …" : "");
  const type = [schema.type ?? "any"].flat().join(" or ");
  const {minimum: least, exclusiveMinimum: above, maximum: most, maxLength: long, maxItems: many} = schema;
  const bounds = [least !== undefined && `from ${least}`, above !== undefined && `above ${above}`,
    most !== undefined && `to ${most.toLocaleString("en")}`, long !== undefined && `${long.toLocaleString("en")} characters at most`,
    many !== undefined && `${many} at most`].filter(Boolean);
  const inner = schema.items ? ` of ${wordsOf(schema.items)}` : "";
  return [`${type === "array" ? "list" : type}${inner}`, ...bounds].join(", ");
}

/** What is told of a name: its kind, its help and what it is unless given; of an object, its own names below it. */
function row(name, schema, required) {
  const told = [make("code", {}, name), required ? " (needed)" : "", " – ", make("span", {class: "quiet"}, wordsOf(schema)),
    schema.description ? `. ${schema.description}` : "", schema.default === undefined ? "" : ` Unless given: ${JSON.stringify(schema.default)}.`];
  return make("li", {}, ...told, schema.properties ? rows(schema) : "");
}

function rows({properties, required = []}) {
  return make("ul", {}, ...Object.entries(properties).map(([name, schema]) => row(name, schema, required.includes(name))));
}

/** The least that a schema accepts, to try a route with. */
function tryOf(schema, name) {
  if (schema.enum) return schema.enum[0];
  if (schema.type === "array") return [tryOf(schema.items, name)];
  if (schema.oneOf) return tryOf(schema.oneOf[0], name);
  return {integer: schema.minimum ?? 0, number: 1, boolean: false, object: {}}[schema.type] ?? "...";
}

function shellOf(method, path, parameters, schema) {
  const filled = parameters.reduce((text, {name, schema: own}) => text.replace(`{${name}}`, own.enum?.[0] ?? `{${name}}`), path);
  const where = new URL(`.${filled}`, document.baseURI).href.replaceAll("%7B", "{").replaceAll("%7D", "}");
  if (method === "get") return `curl '${where}'`;
  const asked = Object.fromEntries((schema.required ?? []).map(name => [name, tryOf(schema.properties[name], name)]));
  return `curl '${where}' -H 'Content-Type: application/json' -d '${JSON.stringify(asked)}'`;
}

function route(path, method, operation, shared) {
  const parameters = [...shared, ...operation.parameters ?? []];
  const schema = operation.requestBody?.content["application/json"].schema, kinds = Object.keys(operation.responses["200"].content);
  return make("details", {class: "route"},
    make("summary", {}, make("b", {class: "method"}, method.toUpperCase()), " ", make("code", {}, path), " ",
      make("span", {class: "quiet"}, operation.summary)),
    parameters.length ? make("ul", {}, ...parameters.map(one => row(one.name, {...one.schema, description: one.description}, one.required))) : "",
    schema ? make("p", {}, "In the request:") : "", schema ? rows(schema) : "",
    make("p", {class: "quiet"}, `Answers as ${kinds.join(", ")}.`),
    make("pre", {tabindex: 0}, make("code", {}, shellOf(method, path, shared, schema ?? {}))));
}

async function start() {
  whenSignedOut(askForToken);
  find("actions").replaceChildren(themeButton());
  try {
    const {paths, info} = await get("openapi.json");
    const refusals = Object.values(paths)[0].get.responses;
    find("lesson").replaceChildren(make("h2", {}, `The API of regard ${info.version}`),
      make("p", {}, "Every task has a route of its own, made from what the models can be asked. Programs find the same at ",
        make("a", {href: "openapi.json"}, "openapi.json"), "."),
      ...Object.entries(paths).flatMap(([path, {parameters = [], ...methods}]) =>
        Object.entries(methods).map(([method, operation]) => route(path, method, operation, parameters))),
      make("h3", {}, "When it refuses"), make("p", {}, 'An error is {"error": {"message", "type", "code"}}, with one of these statuses:'),
      make("ul", {}, ...Object.entries(refusals).filter(([status]) => status !== "200")
        .map(([status, {description}]) => make("li", {}, make("b", {}, status), ` ${description}`))));
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    find("waiting").textContent = error.message;
  }
}

start();
