// The answer to the whole question: the fillings, what the distribution is like, the calls to take along.

import { token } from "./api.js";
import { $, curlCall, fillings, marked, nats, percent, pythonCall } from "./show.js";

export function showFill(fill, { asked, title, beside, call }) {
  const best = fill.fillings[0];
  $("fillings-a-title").textContent = title;
  $("fillings-b-box").hidden = !beside;
  $("verdict").replaceChildren("“", marked(best.text, asked), `” is the likeliest, with ${percent(best.probability)}.`);
  fillings($("fillings-a"), fill, asked);
  $("samples").replaceChildren();
  $("python").textContent = pythonCall(call, call.method);
  $("curl").textContent = curlCall(call, Boolean(token.get()));
}

// the other list; and say it in a sentence when the other would choose another filling
export function showBeside(other, fill, { asked, title, of }) {
  $("fillings-b-title").textContent = title;
  fillings($("fillings-b"), other, asked);
  const choice = other.fillings[0].text;
  if (choice === fill.fillings[0].text) return;
  const mine = fill.fillings.find((filling) => filling.text === choice);
  const told = mine ? `, to which ${of} gives ${percent(mine.probability)}.` : `, which is not among the ten of ${of}.`;
  $("verdict").append(` ${title} would choose “`, marked(choice, asked), `”${told}`);
}

export function showMeasures(fill, blanks) {
  for (const element of document.querySelectorAll(".measures .several")) element.hidden = blanks < 2;
  for (const element of document.querySelectorAll(".measures .pair")) element.hidden = blanks !== 2;
  if (fill.entropy === null) {
    for (const id of ["entropy", "information"]) $(id).textContent = "–";
    for (const id of ["entropy-says", "information-says"]) $(id).textContent = "A chain can't sum over all fillings; a tree can.";
  } else {
    const many = Math.exp(fill.entropy);
    const kind = blanks === 1 ? "words" : blanks === 2 ? "pairs" : "fillings";
    $("entropy").textContent = nats(fill.entropy);
    $("entropy-says").textContent = `How open the question is: as undecided as between ${many < 10 ? many.toFixed(1) : Math.round(many).toLocaleString("en")} equally likely ${kind}. 0 would be certainty.`;
    $("information").textContent = nats(fill.mutual_information);
    $("information-says").textContent = blanks > 2
      ? `What the words tell of each other, all together: the joint has ${Math.exp(fill.mutual_information).toFixed(1)} times fewer choices than its words one by one. Independent answers take this to be 0.`
      : `What one word tells of the other: knowing one divides the choices for the other by ${Math.exp(fill.mutual_information).toFixed(1)}, on average. Independent answers take this to be 0.`;
  }
  $("compatibility").textContent = "…";
  $("compatibility-says").textContent = "";
  $("basis").textContent = `This rests on ${[...basis(fill), ...fill.notes].join("; ")}.`;
}

function basis(fill) {
  const found = [`${fill.passes.toLocaleString("en")} forward ${fill.passes === 1 ? "pass" : "passes"} of ${fill.model} over ${fill.support_sizes[0].toLocaleString("en")} tokens per blank`];
  if (fill.conditionals === "cross") found.push(`${fill.candidates} candidates per blank, the rest completed (${fill.completion})`);
  if (fill.mass_outside_candidates !== null) found.push(`${percent(fill.mass_outside_candidates)} of the probability lies on fillings with a word outside the candidates`);
  if (fill.solver?.converged === false) found.push("the solver has NOT converged");
  return found;
}

export function showCompatibility(answer) {
  $("compatibility").textContent = answer.incompatibility.toFixed(3);
  $("compatibility-says").textContent = `The model answers "first, given second" and "second, given first" apart; 0 would mean that both come from one distribution. What ${answer.method} makes of them strays ${nats(answer.average_kl)} from them, on average.`;
}
