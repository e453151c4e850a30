// The heat maps of two blanks: of one method, of what stands beside it, and of their difference.

import { drawDifference, drawJoint } from "./charts.js";
import { $, ORDINALS, pairTable, percent, trimmed } from "./show.js";

let seen = null; // what is drawn: [{map, method, title}], the second beside the first

// the axes are named by their blanks: of several by their words, too
export function named(map, names) {
  const name = (blank) => (names.length > 2 ? `blank ${blank + 1}, ${names[blank]}` : `${ORDINALS[blank]} blank`);
  return { ...trimmed(map), names: map.blanks.map(name) };
}

export function showMaps(parts, options, tables = []) {
  seen = parts;
  const [first, beside] = parts;
  $("maps").classList.remove("stale");
  $("map-a-title").textContent = first.title;
  $("map-b-title").textContent = beside?.title ?? "";
  $("map-d-title").textContent = beside ? `${first.title} less ${beside.title}` : "";
  $("map-b").parentElement.hidden = !beside;
  $("map-d").parentElement.hidden = beside?.map !== first.map;
  $("table").replaceChildren(...parts.map(({ map, method, title }) => pairTable(map, method, title)), ...tables);
  return drawCharts(options);
}

export const forgetMaps = () => { seen = null; };

export async function drawCharts({ given, onPick }) {
  if (!seen) return;
  const [first, beside] = seen;
  const top = Math.max(...seen.flatMap(({ map, method }) => map.methods[method].probabilities.flat()));
  const options = { top, given, onPick };
  const drawn = seen.map((part, i) => {
    const element = $(i ? "map-b" : "map-a");
    element.setAttribute("aria-label", described(part));
    return drawJoint(element, part.map, part.method, options);
  });
  if (beside?.map === first.map) {
    $("map-d").setAttribute("aria-label", `Heat map of ${first.title} less ${beside.title}; the numbers stand in the table below`);
    drawn.push(drawDifference($("map-d"), first.map, first.method, beside.method, options));
  }
  await Promise.all(drawn);
}

function described({ map, method, title }) {
  const cells = map.methods[method].probabilities.flatMap((row, i) => row.map((p, j) => [p, map.rows[i].text, map.columns[j].text]));
  const best = cells.sort((x, y) => y[0] - x[0]).slice(0, 3).map(([p, a, b]) => `${a} ${b} ${percent(p)}`);
  return `Heat map of ${title}. Likeliest pairs: ${best.join(", ")}. The numbers stand in the table below.`;
}
