// The state of the page: a sentence, its blanked words, and how the model is asked. All of it lives in the
// address, after the # (which browsers keep to themselves), so that a link brings it back.

export const BLANK = "[MASK]";
export const MOST_BLANKS = 8;
export const METHODS_OF_MANY = ["tree", "chain", "l2r", "r2l", "product"];
const NO_CANDIDATES = ["product", "l2r", "r2l"]; // of three or more blanks: they are over every token
const MOST_CANDIDATES_OF_MANY = 512;
const WRITTEN_BLANK = /^(\[MASK\]|_{3,})$/;
const WORD = /\[MASK\]|_{3,}|[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*|[^\s]/gu;

export const EXAMPLES = [
  ["The man is playing in the park.", [1, 2]],
  ["The man is playing with his dog.", [1, 2, 5, 6]],
  ["A dog runs along the beach.", [1, 2]],
  ["Two women are walking down the street.", [0, 1]],
  ["The capital of France is Paris.", [3, 5]],
  ["She took off her coat because it was hot.", [4, 8]],
  ["The children eat their lunch outside.", [1, 4]],
  ["Two young women are walking down the street with their dogs.", [1, 2, 3, 4, 7, 10]],
];

export const first = () => ({
  sentence: EXAMPLES[0][0], blanks: [...EXAMPLES[0][1]], method: "ag", beside: "product",
  many: "tree", besideMany: "product", candidates: "auto", model: null, given: {}, pair: null,
});

// how the model is asked: three or more blanks have methods of their own. What stands beside is another
// method, or the same one of another model, as "model:NAME"
export function plan(state, defaultModel) {
  const blanks = blankOrder(state).length;
  const several = blanks > 2;
  const keys = several ? { method: "many", beside: "besideMany" } : { method: "method", beside: "beside" };
  const [method, chosen, model] = [state[keys.method], state[keys.beside], state.model || defaultModel];
  const ofModel = chosen.startsWith("model:");
  const other = ofModel ? { method, model: chosen.slice(6) } : { method: chosen, model };
  const same = other.method === method && other.model === model;
  const beside = chosen === "none" || same || (blanks < 2 && !ofModel) ? null : other;
  const name = (one) => (ofModel && beside ? `${one.method}, ${one.model}` : one.method);
  return { blanks, several, keys, method, model, beside, title: name({ method, model }), besideTitle: beside && name(beside) };
}

// the method that has the marginals: a chain can't sum over all fillings
export const summed = (method, several) => (several && method !== "product" ? "tree" : method);

// blanks by name: the word that stood there
export const names = (state) => {
  const all = words(state.sentence);
  return blankOrder(state).map((i) => (all[i].written ? "blank" : all[i].text));
};

// [{text, before, written}]: the words with the space before each; `written` if it stands for a blank already
export function words(sentence) {
  const found = [];
  let end = 0;
  for (const match of sentence.matchAll(WORD)) {
    found.push({
      text: match[0], before: sentence.slice(end, match.index), written: WRITTEN_BLANK.test(match[0]),
    });
    end = match.index + match[0].length;
  }
  return found;
}

const isBlank = (word, i, state) => word.written || state.blanks.includes(i);

// the indices of the blanks in the order of the sentence
export const blankOrder = (state) =>
  words(state.sentence).map((word, i) => (isBlank(word, i, state) ? i : -1)).filter((i) => i >= 0);

// the text as the API takes it
export const asked = (state) =>
  words(state.sentence).map((word, i) => word.before + (isBlank(word, i, state) ? BLANK : word.text)).join("");

// press a word: blank it, or put it back; null if there are as many blanks as may be
export function press(state, i) {
  const all = words(state.sentence);
  const fresh = { given: {}, pair: null };
  if (all[i].written) return { ...state, ...fresh, sentence: replaced(all, i) };
  if (state.blanks.includes(i)) return { ...state, ...fresh, blanks: state.blanks.filter((b) => b !== i) };
  return blankOrder(state).length < MOST_BLANKS ? { ...state, ...fresh, blanks: [...state.blanks, i] } : null;
}

// a blank that was written has no word to come back: it leaves
const replaced = (all, i) =>
  all.filter((_, j) => j !== i).map((word) => word.before + word.text).join("").trim();

export function toHash(state) {
  const said = new URLSearchParams({ s: state.sentence, b: state.blanks.join(","), m: state.method, v: state.beside, k: state.candidates });
  if (state.model) said.set("model", state.model);
  if (plan(state).several) {
    said.set("n", state.many);
    said.set("w", state.besideMany);
    if (state.pair) said.set("p", state.pair.join("-"));
  }
  const given = Object.entries(state.given).map(([blank, id]) => `${blank}:${id}`);
  if (given.length) said.set("g", given.join(","));
  return `#${said}`;
}

export function fromHash(hash) {
  const said = new URLSearchParams(hash.slice(1));
  const state = first();
  if (!said.get("s")) return state;
  state.sentence = said.get("s").slice(0, 2000);
  const count = words(state.sentence).length;
  const numbers = (said.get("b") || "").split(",").filter(Boolean).map(Number);
  state.blanks = [...new Set(numbers)].filter((b) => Number.isInteger(b) && b >= 0 && b < count).slice(0, MOST_BLANKS);
  state.method = said.get("m") || state.method;
  state.beside = said.get("v") || state.beside;
  state.many = said.get("n") || state.many;
  state.besideMany = said.get("w") || state.besideMany;
  if (/^(auto|all|\d{1,6})$/.test(said.get("k"))) state.candidates = said.get("k");
  state.model = said.get("model");
  const asBlank = (text) => Number(text) < blankOrder(state).length && Number(text);
  for (const [, blank, id] of (said.get("g") || "").matchAll(/(\d):(\d{1,9})/g)) {
    if (asBlank(blank) !== false) state.given[blank] = Number(id);
  }
  const pair = /^(\d)-(\d)$/.exec(said.get("p") || "")?.slice(1).map(asBlank);
  if (pair && !pair.includes(false) && pair[0] !== pair[1]) state.pair = pair;
  return state;
}

// what the API is asked in every question, by that method; candidates where it has them
export function question(state, model, method, more = {}) {
  const several = blankOrder(state).length > 2;
  let k = state.candidates;
  if (several && (k === "all" || NO_CANDIDATES.includes(method))) k = "auto";
  if (/^\d+$/.test(k)) k = several ? Math.min(Number(k), MOST_CANDIDATES_OF_MANY) : Number(k);
  return { text: asked(state), candidates: k, model, ...more };
}
