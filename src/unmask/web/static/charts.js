// The heat maps, drawn by plotly in the colours of the page.

import { percent } from "./show.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

const ready = new Promise((resolve, reject) => {
  if (window.Plotly) return resolve(window.Plotly);
  const script = document.getElementById("plotly");
  script.addEventListener("load", () => resolve(window.Plotly));
  script.addEventListener("error", () => reject(new Error("the chart script did not load: the numbers stand in the table below")));
});
ready.catch(() => {});

// which cells have their number in them: those of a percent, and of an open question the likeliest ones
const leastShown = (top) => Math.min(0.01, top / 3);
const short = (p) => (100 * p).toFixed(p >= 0.1 ? 0 : p >= 0.01 ? 1 : 2);

const quiet = { displayModeBar: false, responsive: true, doubleClick: false };

// words may repeat on an axis ("Man" and "man" in some vocabularies look alike): positions are numbers
function axes(map, given) {
  const font = { family: "inherit", color: colour("soft"), size: 12 };
  const base = { fixedrange: true, showgrid: false, zeroline: false, ticks: "", tickfont: { size: 12 } };
  const shapes = [];
  map.blanks.forEach((blank, side) => {
    const at = (side ? map.columns : map.rows).findIndex((t) => t.id === given[blank]);
    const [low, high] = [at - 0.5, at + 0.5];
    const line = { color: colour(`b${blank}`), width: 2 };
    const box = side
      ? { x0: low, x1: high, y0: -0.5, y1: map.rows.length - 0.5 }
      : { y0: low, y1: high, x0: -0.5, x1: map.columns.length - 0.5 };
    if (at >= 0) shapes.push({ type: "rect", line, ...box });
  });
  const titles = map.blanks.map((blank, side) => ({ text: map.names[side], font: { color: colour(`b${blank}`), size: 12 }, standoff: 4 }));
  const few = map.columns.length <= 6;
  return {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font, shapes, showlegend: false,
    margin: { l: 84, r: 6, t: 8, b: few ? 48 : 74 }, dragmode: false, hovermode: "closest", bargap: 0.25,
    hoverlabel: { bgcolor: colour("card"), bordercolor: colour("line"), font: { color: colour("ink"), family: "inherit", size: 13 } },
    xaxis: { ...base, domain: [0, 0.84], tickvals: map.columns.map((_, i) => i), ticktext: map.columns.map((t) => t.text), tickangle: few ? 0 : -45, title: titles[1], range: [-0.5, map.columns.length - 0.5] },
    yaxis: { ...base, domain: [0, 0.84], tickvals: map.rows.map((_, i) => i), ticktext: map.rows.map((t) => t.text), range: [map.rows.length - 0.5, -0.5], title: titles[0] },
    xaxis2: { ...base, domain: [0.86, 1], showticklabels: false },
    yaxis2: { ...base, domain: [0.86, 1], showticklabels: false },
  };
}

export async function drawJoint(element, map, method, { top, given, onPick }) {
  const Plotly = await ready;
  const part = map.methods[method];
  const numbers = part.probabilities.map((row, i) => row.map((p, j) => [
    percent(p), percent(p / part.column_marginals[j]), percent(p / part.row_marginals[i]), map.rows[i].text, map.columns[j].text,
  ]));
  const least = leastShown(top);
  const scale = [[0, colour("heat-0")], [0.3, colour("heat-1")], [0.65, colour("heat-2")], [1, colour("heat-3")]];
  const traces = [
    {
      type: "heatmap", z: part.probabilities.map((row) => row.map(Math.sqrt)), zmin: 0, zmax: Math.sqrt(top), colorscale: scale,
      showscale: false, xgap: 2, ygap: 2, customdata: numbers, texttemplate: "%{text}", textfont: { size: 11 },
      text: part.probabilities.map((row) => row.map((p) => (p >= least ? short(p) : ""))),
      hovertemplate: "<b>%{customdata[3]} %{customdata[4]}</b><br>together %{customdata[0]}<br>%{customdata[3]}, given %{customdata[4]}: %{customdata[1]}<br>%{customdata[4]}, given %{customdata[3]}: %{customdata[2]}<extra></extra>",
    },
    {
      type: "bar", x: map.columns.map((_, i) => i), y: part.column_marginals, yaxis: "y2", marker: { color: colour(`b${map.blanks[1]}`) },
      customdata: map.columns.map((t, i) => [t.text, percent(part.column_marginals[i])]), hovertemplate: "%{customdata[0]} by itself: %{customdata[1]}<extra></extra>",
    },
    {
      type: "bar", orientation: "h", y: map.rows.map((_, i) => i), x: part.row_marginals, xaxis: "x2", marker: { color: colour(`b${map.blanks[0]}`) },
      customdata: map.rows.map((t, i) => [t.text, percent(part.row_marginals[i])]), hovertemplate: "%{customdata[0]} by itself: %{customdata[1]}<extra></extra>",
    },
  ];
  await Plotly.react(element, traces, axes(map, given), quiet);
  picks(element, map, onPick);
}

export async function drawDifference(element, map, one, other, { given, onPick }) {
  const Plotly = await ready;
  const [a, b] = [map.methods[one].probabilities, map.methods[other].probabilities];
  const gap = a.map((row, i) => row.map((p, j) => p - b[i][j]));
  const most = Math.max(...gap.flat().map(Math.abs), 1e-12);
  const signed = gap.map((row) => row.map((d) => Math.sign(d) * Math.sqrt(Math.abs(d))));
  const numbers = gap.map((row, i) => row.map((d, j) => [
    `${d < 0 ? "−" : "+"}${(100 * Math.abs(d)).toFixed(2)} points`, percent(a[i][j]), percent(b[i][j]), map.rows[i].text, map.columns[j].text,
  ]));
  const traces = [{
    type: "heatmap", z: signed, zmin: -Math.sqrt(most), zmax: Math.sqrt(most), showscale: false, xgap: 2, ygap: 2, customdata: numbers,
    texttemplate: "%{text}", textfont: { size: 11 },
    text: gap.map((row) => row.map((d) => (Math.abs(d) >= leastShown(most) ? `${d < 0 ? "−" : "+"}${short(Math.abs(d))}` : ""))),
    colorscale: [[0, colour("less")], [0.5, colour("heat-0")], [1, colour("heat-2")]],
    hovertemplate: `<b>%{customdata[3]} %{customdata[4]}</b><br>%{customdata[0]}<br>${one} %{customdata[1]}, ${other} %{customdata[2]}<extra></extra>`,
  }];
  const layout = axes(map, given);
  layout.xaxis.domain = layout.yaxis.domain = [0, 1];
  delete layout.xaxis2;
  delete layout.yaxis2;
  await Plotly.react(element, traces, layout, quiet);
  picks(element, map, onPick);
}

// a cell or a bar at the side fixes the row's word in its blank; a bar above fixes the column's
function picks(element, map, onPick) {
  element.removeAllListeners("plotly_click");
  element.on("plotly_click", ({ points: [point] }) => {
    if (point.curveNumber === 1) onPick(map.blanks[1], map.columns[Math.round(point.x)]);
    else onPick(map.blanks[0], map.rows[Math.round(point.y)]);
  });
}
