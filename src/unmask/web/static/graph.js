// What the blanks tell each other, as arcs between them: the wider, the more. The tree's own are in colour.

const SVG = "http://www.w3.org/2000/svg";
const LEAST_SHOWN = 1 / 12; // of the strongest tie; weaker ones would only be in the way

function draw(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const short = (nats) => nats.toFixed(nats >= 0.01 ? 2 : 3);
const cut = (word, most) => (word.length > most ? `${word.slice(0, most - 1)}…` : word);

// all pairs of blanks, what they tell each other, whether the tree joins them; the strongest last, on top
function ties({ information, edges }) {
  const joined = new Set(edges.map((edge) => [...edge].sort().join("-")));
  const found = [];
  information.forEach((line, i) => line.forEach((nats, j) => {
    if (i < j) found.push({ i, j, nats, joined: joined.has(`${i}-${j}`) });
  }));
  return found.sort((x, y) => x.joined - y.joined || x.nats - y.nats);
}

// the pair that tells each other most
export const strongest = (answer) => {
  const best = ties(answer).reduce((x, y) => (y.nats > x.nats ? y : x));
  return [best.i, best.j];
};

export function drawGraph(svg, answer, { names, pair, narrow, onPick }) {
  const count = names.length;
  const [width, side, step] = narrow ? [340, 26, (340 - 52) / (count - 1)] : [520, 40, (520 - 80) / (count - 1)];
  const tallest = narrow ? 120 : 175;
  const height = tallest + 70, base = tallest + 24;
  const at = (i) => side + i * step;
  const all = ties(answer);
  const most = Math.max(...all.map((tie) => tie.nats), 1e-9);
  const picked = [...pair].sort();
  const letters = Math.max(3, Math.floor(step / 7.5));
  const shown = all.filter((tie) => tie.joined || tie.nats >= LEAST_SHOWN * most || (tie.i === picked[0] && tie.j === picked[1]));
  const widest = Math.max(...shown.map((tie) => tie.j - tie.i));
  const arcs = shown.map((tie) => arc(tie, { at, base, tallest, widest, most, pressed: tie.i === picked[0] && tie.j === picked[1], names, onPick }));
  const nodes = names.map((name, i) => draw("g", { class: `node blank-${i}` },
    draw("circle", { cx: at(i), cy: base, r: 11 }),
    draw("text", { x: at(i), y: base + 4, class: "number" }, String(i + 1)),
    draw("text", { x: at(i), y: base + 29, class: "name" }, cut(name, letters))));
  const focused = svg.contains(document.activeElement) ? document.activeElement.dataset.pair : null;
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren(...arcs.map((a) => a.tie), ...arcs.map((a) => a.label), ...nodes);
  if (focused) svg.querySelector(`[data-pair="${focused}"]`)?.focus();
}

function arc(tie, { at, base, tallest, widest, most, pressed, names, onPick }) {
  const [x0, x1] = [at(tie.i), at(tie.j)];
  const high = (tallest * (tie.j - tie.i + 0.4)) / (widest + 0.4);
  const path = `M ${x0} ${base} A ${(x1 - x0) / 2} ${high} 0 0 1 ${x1} ${base}`;
  const line = draw("path", { d: path, class: "line", "stroke-width": 1 + 9 * Math.sqrt(tie.nats / most) });
  const told = `${names[tie.i]} and ${names[tie.j]}: ${short(tie.nats)} nats`;
  const group = draw("g", {
    class: `tie${tie.joined ? " joined" : ""}`, role: "button", tabindex: tie.joined || pressed ? 0 : -1,
    "aria-label": `Blanks ${tie.i + 1} and ${tie.j + 1}, ${told}`, "aria-pressed": pressed, "data-pair": `${tie.i}-${tie.j}`,
  }, draw("title", {}, told), line, draw("path", { d: path, class: "touch" }));
  const pick = () => onPick([tie.i, tie.j]);
  group.addEventListener("click", pick);
  group.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    pick();
  });
  const number = tie.joined || pressed ? short(tie.nats) : "";
  const label = draw("text", { x: (x0 + x1) / 2, y: base - high - 7, class: pressed ? "nats picked" : "nats", "aria-hidden": true }, number);
  return { tie: group, label };
}
