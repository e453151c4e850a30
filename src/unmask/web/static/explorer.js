// The page: state -> questions -> what is shown. A change leaves the questions that are under way.

import { Refused, ask, get, token } from "./api.js";
import { drawDifference, drawJoint } from "./charts.js";
import { $, curlCall, fillings, make, marked, nats, pairTable, percent, pythonCall, tokens, trimmed } from "./show.js";
import { EXAMPLES, asked, blankOrder, fromHash, press, question, toHash, words } from "./state.js";

const SIDES = ["first", "second"];
const BELOW = ["answer", "maps", "measures", "samples-section", "take"];
const MOST_RETRIES = 5;
let state = fromHash(location.hash);
let offer = null; // models, methods and limits, from /v1/models
let under_way = new AbortController();
let seen = null; // the last map
let draws = 0, retries = 0, retry = 0;

const narrow = () => matchMedia("(max-width: 48rem)").matches;

// the address, and the link that is shown, hold the state
function keep() {
  history.replaceState(null, "", toHash(state));
  $("link").textContent = location.href;
}

function change(next, { wait = 0 } = {}) {
  state = next;
  retries = 0;
  keep();
  drawSentence();
  under_way.abort();
  under_way = new AbortController();
  clearTimeout(retry);
  const { signal } = under_way;
  setTimeout(() => signal.aborted || explore(signal), wait);
}

// ---- the sentence and the controls

function drawSentence() {
  const order = blankOrder(state);
  const focused = document.activeElement?.dataset?.word;
  const parts = words(state.sentence).flatMap((word, i) => {
    const side = order.indexOf(i);
    const blank = side >= 0;
    const button = make("button", { type: "button", className: `word ${SIDES[Math.min(side, 1)] || ""}` }, blank ? (word.written ? "____" : word.text) : word.text);
    button.dataset.word = i;
    button.setAttribute("aria-pressed", blank);
    button.setAttribute("aria-label", blank ? `${word.written ? "blank" : word.text}, blanked` : word.text);
    button.addEventListener("click", () => change(press(state, i), { wait: 150 }));
    if (blank && !word.written) button.replaceChildren(make("s", {}, word.text));
    return [word.before, button];
  });
  $("words").replaceChildren(...parts);
  if (focused !== undefined) $("words").querySelector(`[data-word="${focused}"]`)?.focus();
  if (document.activeElement !== $("text")) $("text").value = state.sentence;
  for (const id of ["method", "beside", "candidates", "model"]) $(id).value = state[id] || offer?.default || "";
  $("method-says").textContent = offer?.methods[state.method] || "";
}

function choose(id, options) {
  $(id).replaceChildren(...options.map(([value, text]) => make("option", { value }, text ?? value)));
}

function setUp() {
  const methods = Object.keys(offer.methods);
  choose("method", methods.map((m) => [m]));
  choose("beside", [["none", "nothing"], ...methods.map((m) => [m])]);
  const numbers = [32, 64, 128, 256, 512, 1024].filter((k) => k <= offer.limits.candidates).map(String);
  if (/^\d+$/.test(state.candidates) && !numbers.includes(state.candidates)) numbers.push(state.candidates);
  choose("candidates", [["auto", "auto"], ...numbers.map((k) => [k, `${k} a side`]), ["all", "all"]]);
  choose("model", offer.models.map((m) => [m.name]));
  choose("examples", [["", "choose…"], ...EXAMPLES.map(([text], i) => [String(i), text])]);
  $("model-label").hidden = offer.models.length < 2;
  $("text").maxLength = offer.limits.text;
  if (!methods.includes(state.method)) state.method = "ag";
  if (state.beside !== "none" && !methods.includes(state.beside)) state.beside = "product";
  if (!offer.models.some((m) => m.name === state.model)) state.model = null;
}

for (const id of ["method", "beside", "candidates", "model"]) {
  $(id).addEventListener("change", () => change({ ...state, [id]: $(id).value }));
}
$("examples").addEventListener("change", () => {
  const [sentence, blanks] = EXAMPLES[Number($("examples").value)] || EXAMPLES[0];
  $("examples").value = "";
  change({ ...state, sentence, blanks: [...blanks], given: null });
});
$("write").addEventListener("submit", (event) => {
  event.preventDefault();
  const sentence = $("text").value.trim();
  if (!sentence) return say("Write a sentence first.");
  change({ ...state, sentence, blanks: [], given: null });
});

// ---- asking

function say(line) {
  $("status").textContent = line;
}

function progress({ stage, done, total }) {
  say(total ? `${stage[0].toUpperCase()}${stage.slice(1)}: ${done} of ${total}.` : `${stage}…`);
  $("progress").hidden = !total;
  if (total) Object.assign($("progress"), { max: total, value: done });
}

const body = (more = {}) => ({ model: state.model || offer.default, ...question(state, more) });

async function explore(signal) {
  const count = blankOrder(state).length;
  $("trouble").hidden = true;
  if (count === 0 || count > 2) {
    for (const id of BELOW) $(id).hidden = true;
    seen = null;
    say(count ? "Two blanks at the most: put a word back." : "Press a word of the sentence to blank it.");
    return;
  }
  for (const id of BELOW) $(id).classList.add("stale");
  const { method } = state;
  const beside = count === 2 && state.beside !== "none" && state.beside !== method ? state.beside : null;
  const start = performance.now();
  const options = { signal, onProgress: progress };
  say("Asking the model…");
  try {
    const fill = await ask("fill", body({ method, top: 10 }), options);
    showFill(fill);
    say(`Answered in ${((performance.now() - start) / 1000).toFixed(2)} s.`);
    $("progress").hidden = true;
    if (count === 2) {
      const best = { blank: 0, id: fill.fillings[0].ids[0] };
      state.given ??= best;
      keep();
      const quietly = { signal };
      await Promise.all([
        ask("map", body({ methods: beside ? [method, beside] : [method], size: narrow() ? 8 : 12 }), quietly).then((map) => showMaps(map, fill, beside)),
        beside && ask("fill", body({ method: beside, top: 10 }), quietly).then((other) => showBeside(other)),
        condition(signal).catch((error) => {
          if (error.status !== 400) throw error;
          state.given = best; // a link may name a token that this model does not have
          keep();
          return condition(signal);
        }),
      ]);
      await ask("compatibility", body({ method }), quietly).then(showCompatibility);
    }
    retries = 0;
    say(`Answered in ${((performance.now() - start) / 1000).toFixed(2)} s. ${spoken(fill)}`);
    document.body.dataset.settled = toHash(state);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

const spoken = (fill) => `The likeliest filling: ${fill.fillings[0].text} with ${percent(fill.fillings[0].probability)}.`;

function fail(error) {
  $("progress").hidden = true;
  $("token-form").hidden = error.status !== 401;
  $("trouble").hidden = false;
  $("error").textContent = error.message[0].toUpperCase() + error.message.slice(1) + (/[.?!]$/.test(error.message) ? "" : ".");
  say("That did not work.");
  if (error.status === 503 && retries < MOST_RETRIES) {
    retries += 1;
    const seconds = error.retryAfter || 2;
    say(`The server is busy. Trying again in ${seconds} s.`);
    const { signal } = under_way;
    retry = setTimeout(() => signal.aborted || explore(signal), 1000 * seconds);
  }
  if (!(error instanceof Refused)) console.error(error);
}
$("again").addEventListener("click", () => (offer ? change({ ...state }) : begin()));
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set($("token").value);
  $("token-form").hidden = true;
  begin();
});

// ---- showing

function showFill(fill) {
  const pair = fill.blank_positions.length === 2;
  for (const id of ["answer", "measures", "samples-section", "take"]) $(id).hidden = false;
  for (const id of ["answer", "measures", "samples-section", "take"]) $(id).classList.remove("stale");
  $("maps").hidden = !pair;
  $("fillings-a-title").textContent = pair ? state.method : "the model's answer for one blank";
  $("fillings-b-box").hidden = !pair || state.beside === "none" || state.beside === state.method;
  const best = fill.fillings[0];
  $("verdict").replaceChildren("“", marked(best.text, asked(state)), `” is the likeliest, with ${percent(best.probability)}.`);
  fillings($("fillings-a"), fill, asked(state));
  for (const element of document.querySelectorAll(".measures .pair")) element.hidden = !pair;
  showMeasures(fill, pair);
  $("samples").replaceChildren();
  keep();
  const call = body({ method: state.method, top: 10 });
  $("python").textContent = pythonCall(call, state.method);
  $("curl").textContent = curlCall(call, Boolean(token.get()));
}

function showMeasures(fill, pair) {
  const many = Math.exp(fill.entropy);
  $("entropy").textContent = nats(fill.entropy);
  $("entropy-says").textContent = `How open the question is: as undecided as between ${many < 10 ? many.toFixed(1) : Math.round(many).toLocaleString("en")} equally likely ${pair ? "pairs" : "words"}. 0 would be certainty.`;
  if (pair) {
    $("information").textContent = nats(fill.mutual_information);
    $("information-says").textContent = `What one word tells of the other: knowing one divides the choices for the other by ${Math.exp(fill.mutual_information).toFixed(1)}, on average. Independent answers take this to be 0.`;
    $("compatibility").textContent = "…";
    $("compatibility-says").textContent = "";
  }
  const basis = [`${fill.passes.toLocaleString("en")} forward ${fill.passes === 1 ? "pass" : "passes"} of ${fill.model} over ${fill.support_sizes[0].toLocaleString("en")} tokens per blank`];
  if (fill.conditionals === "cross") basis.push(`${fill.candidates} candidates per blank, the rest completed (${fill.completion})`);
  if (fill.mass_outside_candidates !== null) basis.push(`${percent(fill.mass_outside_candidates)} of the probability lies on pairs with a word outside the candidates`);
  if (fill.solver.converged === false) basis.push("the solver has NOT converged");
  $("basis").textContent = `This rests on ${[...basis, ...fill.notes].join("; ")}.`;
}

function showBeside(other) {
  $("fillings-b-title").textContent = other.method;
  fillings($("fillings-b"), other, asked(state));
}

function showMaps(whole, fill, beside) {
  const map = trimmed(whole);
  seen = { map, beside };
  $("maps").classList.remove("stale");
  const { method } = state;
  $("map-a-title").textContent = method;
  $("map-b-title").textContent = beside || "";
  $("map-d-title").textContent = beside ? `${method} less ${beside}` : "";
  for (const id of ["map-b", "map-d"]) $(id).parentElement.hidden = !beside;
  $("table").replaceChildren(pairTable(map, method), ...(beside ? [pairTable(map, beside)] : []));
  if (beside) disagreement(map, fill, beside);
  chips(map);
  drawCharts();
}

// say it in a sentence when the other construction would choose another pair
function disagreement(map, fill, beside) {
  const part = map.methods[beside];
  let best = [0, 0];
  part.probabilities.forEach((row, i) => row.forEach((p, j) => { if (p > part.probabilities[best[0]][best[1]]) best = [i, j]; }));
  const [row, column] = [map.rows[best[0]], map.columns[best[1]]];
  if (row.id === fill.fillings[0].ids[0] && column.id === fill.fillings[0].ids[1]) return;
  const mine = map.methods[state.method].probabilities[best[0]][best[1]];
  $("verdict").append(` ${beside} would choose `, make("mark", { className: "first" }, row.text), " … ", make("mark", { className: "second" }, column.text),
    `, a pair to which ${state.method} gives ${percent(mine)}.`);
}

function drawCharts() {
  if (!seen) return;
  const { map, beside } = seen;
  const shown = beside ? [state.method, beside] : [state.method];
  const top = Math.max(...shown.flatMap((m) => map.methods[m].probabilities.flat()));
  const options = { top, given: state.given, onPick: pick };
  const drawn = shown.map((m, i) => {
    const element = $(i ? "map-b" : "map-a");
    element.setAttribute("aria-label", described(map, m));
    return drawJoint(element, map, m, options);
  });
  if (beside) {
    $("map-d").setAttribute("aria-label", `Heat map of ${state.method} less ${beside}; the numbers stand in the table below`);
    drawn.push(drawDifference($("map-d"), map, state.method, beside, options));
  }
  Promise.all(drawn).then(() => { document.body.dataset.drawn = toHash(state); }).catch((error) => say(error.message));
}

function described(map, method) {
  const cells = map.methods[method].probabilities.flatMap((row, i) => row.map((p, j) => [p, map.rows[i].text, map.columns[j].text]));
  const best = cells.sort((x, y) => y[0] - x[0]).slice(0, 3).map(([p, a, b]) => `${a} ${b} ${percent(p)}`);
  return `Heat map of ${method}. Likeliest pairs: ${best.join(", ")}. The numbers stand in the table below.`;
}

function showCompatibility(answer) {
  $("compatibility").textContent = answer.incompatibility.toFixed(3);
  $("compatibility-says").textContent = `The model answers "first, given second" and "second, given first" apart; 0 would mean that both come from one distribution. What ${answer.method} makes of them strays ${nats(answer.average_kl)} from them, on average.`;
}

// ---- fixing a word

function chips(map) {
  [map.rows, map.columns].forEach((list, blank) => {
    $(`chips-${blank}`).replaceChildren(...list.map((t) => {
      const chip = make("button", { type: "button", className: "chip" }, t.text);
      chip.dataset.id = t.id;
      chip.setAttribute("aria-pressed", state.given?.blank === blank && state.given.id === t.id);
      chip.addEventListener("click", () => pick(blank, t));
      return chip;
    }));
  });
}

function pick(blank, t) {
  state = { ...state, given: { blank, id: t.id } };
  keep();
  for (const b of [0, 1]) for (const chip of $(`chips-${b}`).children) {
    chip.setAttribute("aria-pressed", state.given?.blank === b && String(state.given.id) === chip.dataset.id);
  }
  drawCharts();
  return condition(under_way.signal).catch((error) => error.name === "AbortError" || fail(error));
}

async function condition(signal) {
  const { given } = state;
  const answer = await ask("conditional", body({ method: state.method, given: given.id, given_blank: given.blank, top: 8 }), { signal });
  if (state.given !== given) return;
  const line = make("p", {}, "With ", make("strong", { className: `${SIDES[given.blank]}-ink` }, answer.given.text), ` in the ${SIDES[given.blank]} blank, the ${SIDES[1 - given.blank]} one's uncertainty goes from ${nats(answer.marginal_entropy)} to ${nats(answer.entropy)}.`);
  $("conditional").replaceChildren(line, tokens(answer));
}

// ---- samples, copying, beginning

$("draw").addEventListener("click", async () => {
  $("draw").disabled = true;
  try {
    const answer = await ask("sample", body({ method: state.method, number: 10, sampling_seed: draws }), { signal: under_way.signal });
    draws += 1;
    $("samples").replaceChildren(...answer.samples.map((s) => make("li", {}, marked(s.text, asked(state)))));
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  } finally {
    $("draw").disabled = false;
  }
});

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = $(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      say("Copied.");
    } catch {
      getSelection().selectAllChildren(source); // no clipboard without https: select it instead
      say("Selected: copy it with Ctrl+C.");
    }
  });
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawCharts);
addEventListener("hashchange", () => change(fromHash(location.hash)));

async function begin() {
  $("trouble").hidden = true;
  try {
    offer = await get("/v1/models");
    setUp();
    $("version").textContent = (await get("/healthz")).version;
    change(state);
  } catch (error) {
    drawSentence();
    fail(error);
  }
}
begin();
