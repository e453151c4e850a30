// The page: state -> questions -> what is shown. A change leaves the questions that are under way.

import { Refused, ask, get, token } from "./api.js";
import { showBeside, showCompatibility, showFill, showMeasures } from "./answers.js";
import { showBlanks } from "./blanks.js";
import { drawControls, drawSentence, setUp } from "./controls.js";
import { chips, pressChips, showConditional } from "./given.js";
import { drawGraph, strongest } from "./graph.js";
import { drawCharts, forgetMaps, named, showMaps } from "./maps.js";
import { $, informationTable, make, marked, percent } from "./show.js";
import { EXAMPLES, MOST_BLANKS, asked, fromHash, names, plan, press, question, summed, toHash } from "./state.js";

const BELOW = ["answer", "blanks-section", "maps", "measures", "samples-section", "take"];
const MOST_RETRIES = 5;
let state = fromHash(location.hash);
let offer = null; // models, methods and limits, from /v1/models
let under_way = new AbortController();
let graph = null; // the last answer about what the blanks tell each other
let draws = 0, retries = 0, retry = 0;

const narrow = () => matchMedia("(max-width: 48rem)").matches;
const planned = () => plan(state, offer.default);

// the address, and the link that is shown, hold the state
function keep() {
  history.replaceState(null, "", toHash(state));
  $("link").textContent = location.href;
}

function change(next, { wait = 0 } = {}) {
  state = next;
  retries = 0;
  keep();
  drawSentence(state, pressWord);
  drawControls(state, offer);
  under_way.abort();
  under_way = new AbortController();
  clearTimeout(retry);
  const { signal } = under_way;
  setTimeout(() => signal.aborted || explore(signal), wait);
}

function pressWord(i) {
  const next = press(state, i);
  if (next) change(next, { wait: 150 });
  else say(`${MOST_BLANKS} blanks at the most: put a word back.`);
}

for (const id of ["method", "beside"]) {
  $(id).addEventListener("change", () => change({ ...state, [planned().keys[id]]: $(id).value }));
}
for (const id of ["candidates", "model"]) {
  $(id).addEventListener("change", () => change({ ...state, [id]: $(id).value, ...(id === "model" ? { given: {} } : {}) }));
}
$("examples").addEventListener("change", () => {
  const [sentence, blanks] = EXAMPLES[Number($("examples").value)] || EXAMPLES[0];
  $("examples").value = "";
  change({ ...state, sentence, blanks: [...blanks], given: {}, pair: null });
});
$("write").addEventListener("submit", (event) => {
  event.preventDefault();
  const sentence = $("text").value.trim();
  if (!sentence) return say("Write a sentence first.");
  change({ ...state, sentence, blanks: [], given: {}, pair: null });
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

// a question about the text by one method; a model without a pair head has no candidates: 0
function body(method, more = {}, model = planned().model) {
  const head = offer.models.find((m) => m.name === model)?.pair_head;
  const asking = model !== planned().model && state.candidates === "0" && !head ? { ...state, candidates: "auto" } : state;
  return question(asking, model, method, more);
}

async function explore(signal) {
  const { blanks, several, method, beside, besideTitle, title } = planned();
  $("trouble").hidden = true;
  if (blanks === 0 || blanks > MOST_BLANKS) {
    for (const id of BELOW) $(id).hidden = true;
    forgetMaps();
    say(blanks ? `${MOST_BLANKS} blanks at the most: put a word back.` : "Press a word of the sentence to blank it.");
    return;
  }
  for (const id of BELOW) $(id).classList.add("stale");
  const start = performance.now();
  const took = () => `Answered in ${((performance.now() - start) / 1000).toFixed(2)} s.`;
  say("Asking the model…");
  try {
    const call = body(method, { method, top: 10 });
    const fill = await ask("fill", call, { signal, onProgress: progress });
    for (const id of ["answer", "measures", "samples-section", "take"]) {
      $(id).hidden = false;
      $(id).classList.remove("stale");
    }
    $("blanks-section").hidden = !several;
    $("maps").hidden = blanks < 2;
    showFill(fill, { asked: asked(state), title: blanks > 1 || beside ? title : "the model's answer for one blank", beside, call });
    showMeasures(fill, blanks);
    keep();
    say(took());
    $("progress").hidden = true;
    await Promise.all([
      beside && ask("fill", body(beside.method, { method: beside.method, top: 10 }, beside.model), { signal, onProgress: progress })
        .then((other) => showBeside(other, fill, { asked: asked(state), title: besideTitle, of: title })),
      blanks === 2 && explorePair(fill, signal),
      several && exploreSeveral(signal),
    ]);
    $("progress").hidden = true;
    retries = 0;
    if (offer.models.some((m) => m.pair_head === null && m.name === fill.model)) {
      offer = await get("/v1/models"); // more is known of a model that is loaded
      drawControls(state, offer);
    }
    say(`${took()} The likeliest filling, with ${percent(fill.fillings[0].probability)}: ${fill.fillings[0].text}`);
    document.body.dataset.settled = toHash(state);
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
  }
}

async function explorePair(fill, signal) {
  const { method } = planned();
  const best = { 0: fill.fillings[0].ids[0] };
  if (!Object.keys(state.given).length) state.given = best;
  keep();
  await Promise.all([
    maps([0, 1], signal),
    condition(signal).catch((error) => {
      if (error.status !== 400) throw error;
      state.given = best; // a link may name a token that this model does not have
      keep();
      return condition(signal);
    }),
  ]);
  showCompatibility(await ask("compatibility", body(method, { method }), { signal }));
}

async function exploreSeveral(signal) {
  const { method } = planned();
  await marginals(signal).catch((error) => {
    if (error.status !== 400 || !Object.keys(state.given).length) throw error;
    state.given = {};
    return marginals(signal);
  });
  if (summed(method, true) !== "tree") graph = await ask("marginals", body("tree", { method: "tree", top: 1 }), { signal });
  state.pair ??= strongest(graph);
  keep();
  showGraph();
  await maps(state.pair, signal);
}

async function marginals(signal) {
  const method = summed(planned().method, true);
  const { given } = state;
  const answer = await ask("marginals", body(method, { method, given, top: narrow() ? 5 : 6 }), { signal, onProgress: progress });
  if (state.given !== given) return;
  if (method === "tree") graph = answer;
  $("blanks-section").classList.remove("stale");
  $("blanks-by").textContent = method === planned().method ? "" : ` By ${method}: a chain can't sum over all fillings.`;
  showBlanks($("blanks"), answer, { names: names(state), onFix: pick });
}

// ---- two blanks at once

const chartOptions = () => ({ given: state.given, onPick: pick });

async function maps(blanks, signal) {
  const { several, method, model, beside, title, besideTitle } = planned();
  const size = narrow() ? 8 : 12;
  const [one, other] = [summed(method, several), beside && summed(beside.method, several)];
  const both = other && beside.model === model && other !== one;
  const map = (of, methods, which) => ask("map", body(of, { methods, size, blanks }, which), { signal }).then((answer) => named(answer, names(state)));
  const [first, second] = await Promise.all([
    map(both && one === "product" ? other : one, both ? [one, other] : [one], model),
    beside && beside.model !== model && map(other, [other], beside.model),
  ]);
  const called = (by, whole, name) => (by === whole ? name : by);
  const parts = [{ map: first, method: one, title: called(one, method, title) }];
  if (both) parts.push({ map: first, method: other, title: called(other, beside.method, besideTitle) });
  if (second) parts.push({ map: second, method: other, title: besideTitle });
  $("given").hidden = several;
  $("graph-box").hidden = !several;
  $("maps-title").textContent = several ? "Two blanks at once" : "Both blanks at once";
  if (!several) chips(first, state.given, pick);
  drawn(showMaps(parts, chartOptions(), several ? [informationTable(graph.information, names(state))] : []));
}

const drawn = (charts) => charts.then(() => { document.body.dataset.drawn = toHash(state); }, (error) => say(error.message));

function showGraph() {
  const all = names(state);
  drawGraph($("graph"), graph, { names: all, pair: state.pair, narrow: narrow(), onPick: pickPair });
  [$("pair-0"), $("pair-1")].forEach((select, side) => {
    select.replaceChildren(...all.map((name, i) => make("option", { value: i }, `${i + 1} ${name}`)));
    select.value = state.pair[side];
  });
}

// a blank that is chosen for both sides changes places with the other one
for (const side of [0, 1]) {
  $(`pair-${side}`).addEventListener("change", () => {
    const chosen = Number($(`pair-${side}`).value);
    const rest = state.pair[1 - side] === chosen ? state.pair[side] : state.pair[1 - side];
    pickPair(side ? [rest, chosen] : [chosen, rest]);
  });
}

function pickPair(pair) {
  state = { ...state, pair };
  keep();
  showGraph();
  const { signal } = under_way;
  return maps(pair, signal).catch((error) => error.name === "AbortError" || fail(error));
}

// ---- fixing a word: of two blanks there is always one; of several any number, and pressing again frees it

function pick(blank, t) {
  const { several } = planned();
  const given = several ? { ...state.given, [blank]: t.id } : { [blank]: t.id };
  if (several && state.given[blank] === t.id) delete given[blank];
  state = { ...state, given };
  keep();
  if (!several) pressChips(given);
  drawn(drawCharts(chartOptions()));
  const { signal } = under_way;
  return (several ? marginals(signal) : condition(signal)).catch((error) => error.name === "AbortError" || fail(error));
}

async function condition(signal) {
  const { method } = planned();
  const { given } = state;
  const [[blank, id]] = Object.entries(given);
  const answer = await ask("conditional", body(method, { method, given: id, given_blank: Number(blank), top: 8 }), { signal });
  if (state.given === given) showConditional(answer);
}

// ---- errors

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

// ---- samples, copying, beginning

$("draw").addEventListener("click", async () => {
  $("draw").disabled = true;
  const { method } = planned();
  try {
    const answer = await ask("sample", body(method, { method, number: 10, sampling_seed: draws }), { signal: under_way.signal });
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

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => drawn(drawCharts(chartOptions())));
addEventListener("hashchange", () => change(fromHash(location.hash)));

async function begin() {
  $("trouble").hidden = true;
  try {
    offer = await get("/v1/models");
    setUp(offer, state);
    $("version").textContent = (await get("/healthz")).version;
    change(state);
  } catch (error) {
    drawSentence(state, pressWord);
    fail(error);
  }
}
begin();
