// Two blanks: fix a word of the one, and see the other's distribution move.

import { $, ORDINALS, make, nats, tokens } from "./show.js";

export function chips(map, given, onPick) {
  [map.rows, map.columns].forEach((list, blank) => {
    $(`chips-${blank}`).replaceChildren(...list.map((t) => {
      const chip = make("button", { type: "button", className: "chip" }, t.text);
      chip.dataset.id = t.id;
      chip.addEventListener("click", () => onPick(blank, t));
      return chip;
    }));
  });
  pressChips(given);
}

export function pressChips(given) {
  for (const blank of [0, 1]) for (const chip of $(`chips-${blank}`).children) {
    chip.setAttribute("aria-pressed", String(given[blank]) === chip.dataset.id);
  }
}

export function showConditional(answer) {
  const { blank, given_blank } = answer;
  const line = make("p", {}, "With ", make("strong", { className: `ink blank-${given_blank}` }, answer.given.text),
    ` in the ${ORDINALS[given_blank]} blank, the ${ORDINALS[blank]} one's uncertainty goes from ${nats(answer.marginal_entropy)} to ${nats(answer.entropy)}.`);
  $("conditional").replaceChildren(line, tokens(answer));
}
