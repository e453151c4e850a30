// Every blank by itself: its likeliest words, each to be fixed so that the others' distributions move.

import { make, nats, percent } from "./show.js";

export function showBlanks(box, answer, { names, onFix }) {
  const focused = box.contains(document.activeElement) ? document.activeElement.dataset.token : null;
  const known = answer.blanks.some((blank) => blank.given);
  box.replaceChildren(...answer.blanks.map((blank, i) => card(blank, i, { name: names[i], known, onFix })));
  if (focused) box.querySelector(`[data-token="${focused}"]`)?.focus();
}

function card(blank, i, { name, known, onFix }) {
  const title = make("h3", {}, make("span", { className: "badge" }, String(i + 1)), ` ${name}`);
  const moved = known && !blank.given;
  const open = blank.given ? "fixed" : moved ? `${nats(blank.marginal_entropy)} → ${nats(blank.entropy)}` : nats(blank.marginal_entropy);
  const most = Math.max(...blank.tokens.flatMap((t) => [blank.given ? 0 : t.probability, t.marginal_probability]), 1e-12);
  const list = make("ol", {}, ...blank.tokens.map((t) => make("li", {}, line(t, i, { most, moved, held: blank.given?.id === t.id, fixed: Boolean(blank.given), onFix }))));
  return make("div", { className: `card blank-${i}` }, make("div", { className: "head" }, title, make("span", { className: "open" }, open)), list);
}

// a fixed blank keeps the probabilities that its words had before, so that another can be chosen
function line(t, blank, { most, moved, held, fixed, onFix }) {
  const p = fixed ? t.marginal_probability : t.probability;
  const bar = make("span", { className: "bar" });
  bar.style.width = `${(100 * p) / most}%`;
  const parts = [bar];
  if (moved) {
    const was = make("span", { className: "bar was" });
    was.style.width = `${(100 * t.marginal_probability) / most}%`;
    parts.push(was);
  }
  const button = make("button", { type: "button", className: "token" }, ...parts,
    make("span", { className: "t" }, t.text), make("span", { className: "p" }, percent(p)));
  button.dataset.token = `${blank}:${t.id}`;
  button.setAttribute("aria-pressed", held);
  if (moved) button.title = `before ${percent(t.marginal_probability)}`;
  button.addEventListener("click", () => onFix(blank, t));
  return button;
}
