// Parses workflow and action files and evaluates their expressions with GitHub's own packages. Requests and answers are
// lines of JSON; the folder of the packages is the one argument.
import { register } from "node:module";
import { createInterface } from "node:readline";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The packages import JSON without the attribute that older releases of Node want.
register(
  "data:text/javascript," +
    encodeURIComponent(
      `export function load(url, context, next) {
         return next(url, url.endsWith(".json") ? { ...context, importAttributes: { type: "json" } } : context);
       }`,
    ),
);

const load = (path) => import(pathToFileURL(join(process.argv[2], "@actions", path)).href);
const { parseWorkflow, NoOperationTraceWriter } = await load("workflow-parser/dist/index.js");
const { parseAction } = await load("workflow-parser/dist/actions/action-parser.js");
const { data, Evaluator, Lexer, Parser } = await load("expressions/dist/index.js");
const { TokenType } = await load("expressions/dist/lexer.js");

// The package undoes the first of a string's doubled quotes alone; the runner undoes all of them.
const addToken = Lexer.prototype.addToken;
Lexer.prototype.addToken = function (type, value) {
  const text = () => this.input.substring(this.start + 1, this.offset - 1).replaceAll("''", "'");
  return addToken.call(this, type, type === TokenType.STRING ? text() : value);
};

const CONTEXTS = ["github", "env", "vars", "secrets", "inputs", "needs", "steps", "runner", "job", "strategy", "matrix"];
const STATUS = ["success", "failure", "cancelled", "always"];

/** A token tree as plain JSON; an expression becomes `{"$": text}`. */
function plain(token) {
  switch (token.templateTokenType) {
    case 1: {
      const items = [];
      for (let index = 0; index < token.count; index++) items.push(plain(token.get(index)));
      return items;
    }
    case 2: {
      const members = {};
      for (let index = 0; index < token.count; index++) {
        const { key, value } = token.get(index);
        members[key.value ?? key.toDisplayString()] = plain(value);
      }
      return members;
    }
    case 3:
      return { $: token.expression };
    default:
      return token.value ?? null;
  }
}

function evaluator(text, contexts, status) {
  const functions = STATUS.map((name) => ({ name, minArgs: 0, maxArgs: 0 }));
  const tree = new Parser(new Lexer(text).lex().tokens, CONTEXTS, functions).parse();
  const called = new Map(
    functions.map((one) => [one.name, { ...one, call: () => new data.BooleanData(one.name === "always" || !!status?.[one.name]) }]),
  );
  return new Evaluator(tree, JSON.parse(JSON.stringify(contexts), data.reviver), called).evaluate();
}

/** A tree with every expression replaced by its value as text. */
function evaluated(tree, contexts, status) {
  if (Array.isArray(tree)) return tree.map((item) => evaluated(item, contexts, status));
  if (tree === null || typeof tree !== "object") return tree;
  if (typeof tree.$ === "string") return evaluator(tree.$, contexts, status).coerceString();
  return Object.fromEntries(Object.entries(tree).map(([key, value]) => [key, evaluated(value, contexts, status)]));
}

const truthy = (value) => {
  switch (value.kind) {
    case data.Kind.Null:
      return false;
    case data.Kind.Boolean:
      return value.value;
    case data.Kind.Number:
      return value.value !== 0 && !Number.isNaN(value.value);
    case data.Kind.String:
      return value.value !== "";
    default:
      return true;
  }
};

function condition(text, contexts, status) {
  const bare = text.trim().replace(/^\$\{\{(.*)\}\}$/s, "$1");
  // Without a status function, success() goes before it.
  const named = new RegExp(`\\b(${STATUS.join("|")})\\s*\\(`, "i").test(bare.replace(/'[^']*'/g, ""));
  return truthy(evaluator(named ? bare : `success() && (${bare || "true"})`, contexts, status));
}

function answer({ op, kind, text, tree, contexts, status }) {
  switch (op) {
    case "parse": {
      const file = { name: kind === "action" ? "action.yml" : "workflow.yml", content: text };
      const parsed = (kind === "action" ? parseAction : parseWorkflow)(file, new NoOperationTraceWriter());
      const errors = parsed.context.errors.getErrors().map((error) => error.message);
      return errors.length > 0 || !parsed.value ? { errors } : { tree: plain(parsed.value) };
    }
    case "evaluate":
      return { tree: evaluated(tree, contexts, status) };
    case "condition":
      return { holds: condition(text, contexts, status) };
    default:
      return { errors: [`no operation ${op}`] };
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  let reply;
  try {
    reply = answer(JSON.parse(line));
  } catch (error) {
    reply = { errors: [String(error?.message ?? error)] };
  }
  process.stdout.write(JSON.stringify(reply) + "\n");
}
