// The sentence as words to press, and the choices under it.

import { $, make } from "./show.js";
import { EXAMPLES, METHODS_OF_MANY, blankOrder, plan, words } from "./state.js";

export function drawSentence(state, onPress) {
  const order = blankOrder(state);
  const focused = document.activeElement?.dataset?.word;
  const parts = words(state.sentence).flatMap((word, i) => {
    const blank = order.indexOf(i);
    const pressed = blank >= 0;
    const button = make("button", { type: "button", className: pressed ? `word blank-${blank}` : "word" }, pressed && word.written ? "____" : word.text);
    button.dataset.word = i;
    button.setAttribute("aria-pressed", pressed);
    button.setAttribute("aria-label", pressed ? `${word.written ? "blank" : word.text}, blanked` : word.text);
    button.addEventListener("click", () => onPress(i));
    if (pressed && !word.written) button.replaceChildren(make("s", {}, word.text));
    if (pressed && order.length > 2) button.dataset.number = blank + 1;
    return [word.before, button];
  });
  $("words").replaceChildren(...parts);
  if (focused !== undefined) $("words").querySelector(`[data-word="${focused}"]`)?.focus();
  if (document.activeElement !== $("text")) $("text").value = state.sentence;
}

const option = ([value, text]) => make("option", { value }, text ?? value);

function choose(id, options, value) {
  $(id).replaceChildren(...options);
  $(id).value = value;
}

const ofPairs = (offer) => Object.keys(offer.methods).filter((m) => !["grid", "chain", "tree"].includes(m));

// the choices follow the number of blanks and the model
export function drawControls(state, offer) {
  if (!offer) return;
  const { several, method, model, keys } = plan(state, offer.default);
  const methods = several ? METHODS_OF_MANY : ofPairs(offer);
  choose("method", methods.map((m) => option([m])), method);
  const others = offer.models.map((m) => m.name).filter((name) => name !== model);
  const groups = others.length
    ? [grouped("method", methods.map((m) => [m])), grouped("model", others.map((name) => [`model:${name}`, name]))]
    : methods.map((m) => option([m]));
  choose("beside", [option(["none", "nothing"]), ...groups], state[keys.beside]);
  choose("candidates", candidates(state, offer, several, model), several && state.candidates === "all" ? "auto" : state.candidates);
  choose("model", offer.models.map((m) => option([m.name])), model);
  $("model-label").hidden = offer.models.length < 2;
  $("method-says").textContent = offer.methods[method] || "";
}

const grouped = (label, options) => make("optgroup", { label }, ...options.map(option));

function candidates(state, offer, several, model) {
  const most = several ? 512 : offer.limits.candidates;
  const numbers = [32, 64, 128, 256, 512, 1024].filter((k) => k <= most).map(String);
  const known = offer.models.find((m) => m.name === model);
  const head = known?.pair_head || state.candidates === "0" ? [["0", "0: one pass"]] : [];
  if (/^[1-9]\d*$/.test(state.candidates) && !numbers.includes(state.candidates)) numbers.push(state.candidates);
  const all = several ? [] : [["all", "all"]];
  return [["auto", "auto"], ...head, ...numbers.map((k) => [k, `${k} a side`]), ...all].map(option);
}

// what a link names and this server does not have is mended
export function setUp(offer, state) {
  choose("examples", [["", "choose…"], ...EXAMPLES.map(([text], i) => [String(i), text])].map(option), "");
  $("text").maxLength = offer.limits.text;
  const models = offer.models.map((m) => m.name);
  const beside = (chosen, methods) => chosen === "none" || methods.includes(chosen) || (chosen.startsWith("model:") && models.includes(chosen.slice(6)));
  if (!ofPairs(offer).includes(state.method)) state.method = "ag";
  if (!METHODS_OF_MANY.includes(state.many)) state.many = "tree";
  if (!beside(state.beside, ofPairs(offer))) state.beside = "product";
  if (!beside(state.besideMany, METHODS_OF_MANY)) state.besideMany = "product";
  if (!models.includes(state.model)) state.model = null;
}
