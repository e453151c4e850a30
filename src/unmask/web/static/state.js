// The state of the page: a sentence, its blanked words, and how the model is asked. All of it lives in the
// address, after the # (which browsers keep to themselves), so that a link brings it back.

export const BLANK = "[MASK]";
const WRITTEN_BLANK = /^(\[MASK\]|_{3,})$/;
const WORD = /\[MASK\]|_{3,}|[\p{L}\p{N}]+(?:['’-][\p{L}\p{N}]+)*|[^\s]/gu;

export const EXAMPLES = [
  ["The man is playing in the park.", [1, 2]],
  ["A dog runs along the beach.", [1, 2]],
  ["Two women are walking down the street.", [0, 1]],
  ["The capital of France is Paris.", [3, 5]],
  ["She took off her coat because it was hot.", [4, 8]],
  ["The children eat their lunch outside.", [1, 4]],
];

export const first = () => ({
  sentence: EXAMPLES[0][0], blanks: [...EXAMPLES[0][1]], method: "ag", beside: "product",
  candidates: "auto", model: null, given: null,
});

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

// press a word: blank it, or put it back; of three the one that was pressed first comes back
export function press(state, i) {
  const all = words(state.sentence);
  if (all[i].written) return { ...state, sentence: replaced(all, i), given: null };
  const written = all.filter((word) => word.written).length;
  let blanks = state.blanks.includes(i) ? state.blanks.filter((b) => b !== i) : [...state.blanks, i];
  blanks = blanks.slice(Math.max(0, blanks.length - Math.max(0, 2 - written)));
  return { ...state, blanks, given: null };
}

// a blank that was written has no word to come back: it leaves
const replaced = (all, i) =>
  all.filter((_, j) => j !== i).map((word) => word.before + word.text).join("").trim();

export function toHash(state) {
  const said = new URLSearchParams({ s: state.sentence, b: state.blanks.join(","), m: state.method, v: state.beside, k: state.candidates });
  if (state.model) said.set("model", state.model);
  if (state.given) said.set("g", `${state.given.blank}:${state.given.id}`);
  return `#${said}`;
}

export function fromHash(hash) {
  const said = new URLSearchParams(hash.slice(1));
  const state = first();
  if (!said.get("s")) return state;
  state.sentence = said.get("s").slice(0, 2000);
  const count = words(state.sentence).length;
  const numbers = (said.get("b") || "").split(",").filter(Boolean).map(Number);
  state.blanks = [...new Set(numbers)].filter((b) => Number.isInteger(b) && b >= 0 && b < count).slice(0, 2);
  state.method = said.get("m") || state.method;
  state.beside = said.get("v") || state.beside;
  if (/^(auto|all|[1-9]\d{0,5})$/.test(said.get("k"))) state.candidates = said.get("k");
  state.model = said.get("model");
  const given = /^([01]):(\d+)$/.exec(said.get("g") || "");
  if (given) state.given = { blank: Number(given[1]), id: Number(given[2]) };
  return state;
}

// what the API is asked in every question
export function question(state, more = {}) {
  const k = state.candidates;
  const body = { text: asked(state), candidates: /^\d+$/.test(k) ? Number(k) : k, ...more };
  if (state.model) body.model = state.model;
  return body;
}
