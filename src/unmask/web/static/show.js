// Small pieces of the page, made from answers. Everything a model says goes in as text, never as markup.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

const KEPT_SPACE = "\u00a0"; // a number and its unit stay on one line

export function percent(p) {
  const hundred = 100 * p;
  const number = hundred >= 10 ? hundred.toFixed(1) : hundred >= 0.01 ? hundred.toFixed(2) : hundred === 0 ? "0" : hundred.toExponential(1);
  return `${number}${KEPT_SPACE}%`;
}

export const nats = (x) => `${x >= 0.01 ? x.toFixed(2) : Math.max(0, x).toPrecision(2)}${KEPT_SPACE}nats`;

export const ORDINALS = ["first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth"];

// a filled text with its new words marked: what lies between the stretches that did not change
export function marked(text, asked) {
  const pieces = asked.split(/\[MASK\]|_{3,}/).map((piece) => piece.trim());
  const line = make("span", { className: "s" });
  let at = 0, side = 0;
  const mark = (word) => make("mark", { className: `blank-${side++}` }, word);
  const between = (end, blanks) => {
    const stretch = text.slice(at, end);
    const inside = stretch.trim();
    const lead = stretch.slice(0, stretch.indexOf(inside));
    const parts = inside.split(/\s+/);
    line.append(lead);
    if (blanks === parts.length) parts.forEach((word, i) => line.append(i ? " " : "", mark(word)));
    else if (inside) { line.append(mark(inside)); side += blanks - 1; }
    line.append(stretch.slice(lead.length + inside.length));
  };
  let blanks = 0;
  pieces.forEach((piece, i) => {
    blanks += i > 0;
    if (!piece && i < pieces.length - 1 && i > 0) return; // two blanks side by side
    const last = i === pieces.length - 1;
    const found = last && !piece ? text.length : text.indexOf(piece, at);
    if (found < 0) return;
    if (blanks) between(found, blanks);
    else line.append(text.slice(at, found));
    blanks = 0;
    line.append(text.slice(found, found + piece.length));
    at = found + piece.length;
  });
  line.append(text.slice(at));
  return line;
}

export function fillings(list, answer, asked) {
  const most = answer.fillings[0]?.probability || 1;
  list.replaceChildren(...answer.fillings.map((filling) => {
    const bar = make("span", { className: "bar" });
    bar.style.width = `${(100 * filling.probability) / most}%`;
    return make("li", {}, bar, make("span", { className: "p" }, percent(filling.probability)), marked(filling.text, asked));
  }));
}

export function tokens(answer) {
  const most = Math.max(...answer.tokens.flatMap((t) => [t.probability, t.marginal_probability]));
  return make("ol", { className: "tokens" }, ...answer.tokens.map((t) => {
    const [bar, was] = [make("span", { className: "bar" }), make("span", { className: "bar before" })];
    bar.style.width = `${(100 * t.probability) / most}%`;
    was.style.width = `${(100 * t.marginal_probability) / most}%`;
    return make("li", {}, make("span", { className: "p" }, percent(t.probability)), make("span", { className: "t" }, t.text),
      make("span", { className: "bars" }, bar, was), make("span", { className: "was" }, `before ${percent(t.marginal_probability)}`));
  }));
}

// the map without the words that no construction gives any weight, so that the others have room
export function trimmed(map, least = 0.004, atLeast = 4) {
  const parts = Object.values(map.methods);
  const keep = (list, side) => list.map((_, i) => i).filter((i) => i < atLeast || parts.some((part) => part[side][i] >= least));
  const [rows, columns] = [keep(map.rows, "row_marginals"), keep(map.columns, "column_marginals")];
  const methods = Object.fromEntries(Object.entries(map.methods).map(([name, part]) => [name, {
    ...part,
    probabilities: rows.map((i) => columns.map((j) => part.probabilities[i][j])),
    row_marginals: rows.map((i) => part.row_marginals[i]),
    column_marginals: columns.map((j) => part.column_marginals[j]),
  }]));
  return { ...map, rows: rows.map((i) => map.rows[i]), columns: columns.map((j) => map.columns[j]), methods };
}

export function pairTable(map, method, title) {
  const part = map.methods[method];
  const column = (text) => make("th", { scope: "col" }, text);
  const row = (text) => make("th", { scope: "row" }, text);
  const head = make("tr", {}, column(map.names.join(" \\ ")), ...map.columns.map((t) => column(t.text)), column("any"));
  const rows = map.rows.map((t, i) => make("tr", {}, row(t.text),
    ...part.probabilities[i].map((p) => make("td", {}, percent(p))), make("td", {}, percent(part.row_marginals[i]))));
  const foot = make("tr", {}, row("any"), ...part.column_marginals.map((p) => make("td", {}, percent(p))), make("td", {}, "100 %"));
  return make("table", {}, make("caption", {}, `${title}: the probability of each pair`), make("thead", {}, head), make("tbody", {}, ...rows, foot));
}

// what every two blanks tell each other, in nats
export function informationTable(information, names) {
  const titles = names.map((name, i) => `${i + 1} ${name}`);
  const head = make("tr", {}, make("td", {}), ...titles.map((t) => make("th", { scope: "col" }, t)));
  const rows = information.map((line, i) => make("tr", {}, make("th", { scope: "row" }, titles[i]),
    ...line.map((x, j) => make("td", {}, i === j ? "" : x.toFixed(3)))));
  return make("table", {}, make("caption", {}, "What every two blanks tell each other, in nats"), make("thead", {}, head), make("tbody", {}, ...rows));
}

// the calls that do the same elsewhere
export function pythonCall(body, method) {
  const settings = body.candidates === "auto" ? "" : `, candidates=${JSON.stringify(body.candidates)}`;
  return [
    "import unmask", "", `mlm = unmask.load(${JSON.stringify(body.model)})`,
    `joint = unmask.fill(${JSON.stringify(body.text)}, mlm=mlm, method=${JSON.stringify(method)}${settings})`,
    "for filling in joint.top(10):", "    print(f\"{filling.log_prob:.2f}  {filling.text}\")",
  ].join("\n");
}

export function curlCall(body, hasToken) {
  const quoted = JSON.stringify(body).replaceAll("'", "'\\''");
  const token = hasToken ? " \\\n  -H \"Authorization: Bearer $UNMASK_TOKEN\"" : "";
  return `curl -s ${location.origin}/v1/fill -H 'Content-Type: application/json'${token} \\\n  -d '${quoted}'`;
}
