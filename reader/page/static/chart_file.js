// A chart as a file, or all of its facets in one: SVG, drawn again from its values, and PNG, with the pixels of the page. Both have the colours of the page,
// and below the chart the names of its series and its note.
// Rule: text becomes text nodes, as everywhere on this page. No attribute is a style: the files need no policy of their own.

const SVG = document.querySelector("svg").namespaceURI; // the name is that of the page's own picture
const FONT = "12px system-ui, sans-serif";
const EDGE = 12;
const LINE = 20;
const SWATCH = 12;

/** The chart as SVG text. `picture` is {area, panels: [{name, data, plot}], series, note, isBars, colours: {ground, text, dim, grid,
 *  series: [colour], dashes}}; the panels are where they are in `area` on the page. */
export function toSvg(picture) {
  const { isBars, colours } = picture;
  const { legend, titles, width, height, panels } = layout(picture);
  const root = s("svg", { xmlns: SVG, width, height, viewBox: `0 0 ${width} ${height}`, "font-family": "system-ui, sans-serif", "font-size": 12 },
    s("rect", { width, height, fill: colours.ground }),
    panels.map(({ plot, data, left, top }) => {
      const box = inside(plot);
      return s("g", { transform: `translate(${round(left)} ${round(top)})` }, axes(plot, box, colours, isBars),
        data.series.map(({ values }, place) => (isBars ? bars(plot, box, values, place, data, colours) : line(plot, box, values, place, data, colours))));
    }),
    titles.map(({ x, y, name }) => s("text", { x, y, fill: colours.text, "font-weight": 600 }, name)),
    legend.map(({ x, y, name, place }) => (place === null ? s("text", { x, y, fill: colours.text }, name) : [
      s("rect", { x, y: y - SWATCH + 2, width: SWATCH, height: SWATCH, rx: 3, fill: colours.series[place] }), s("text", { x: x + SWATCH + 6, y, fill: colours.text }, name)])));
  return new XMLSerializer().serializeToString(root);
}

/** The chart as the Blob of a PNG. */
export function toPng(picture) {
  const { colours } = picture;
  const { legend, titles, width, height, panels } = layout(picture);
  const ratio = panels[0].plot.ctx.canvas.width / panels[0].plot.width;
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.fillStyle = colours.ground;
  pen.fillRect(0, 0, width, height);
  for (const { plot, left, top } of panels) pen.drawImage(plot.ctx.canvas, left, top, plot.width, plot.height);
  pen.fillStyle = colours.text;
  pen.font = `600 ${FONT}`;
  for (const { x, y, name } of titles) pen.fillText(name, x, y);
  pen.font = FONT;
  for (const { x, y, name, place } of legend) {
    if (place !== null) {
      pen.fillStyle = colours.series[place];
      pen.fillRect(x, y - SWATCH + 2, SWATCH, SWATCH);
    }
    pen.fillStyle = colours.text;
    pen.fillText(name, place === null ? x : x + SWATCH + 6, y);
  }
  return new Promise((resolve, reject) => canvas.toBlob((blob) => (blob ? resolve(blob) : reject(new Error("The browser made no picture: make the window smaller and try again."))), "image/png"));
}

// The panels and their titles, then the names of the series in lines below them, then the note.
function layout({ area, panels: shown, series, note }) {
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = FONT;
  const from = area.getBoundingClientRect();
  const panels = shown.map((panel) => {
    const own = panel.plot.root.getBoundingClientRect();
    return { ...panel, left: EDGE + own.left - from.left, top: EDGE + own.top - from.top };
  });
  const titles = panels.filter(({ name }) => name !== null).map(({ name, plot, left, top }) => ({ x: round(left + 4), y: round(top - 7), name: shorter(name, plot.width - 8, pen) }));
  const width = round(Math.max(...panels.map(({ plot, left }) => left + plot.width)) + EDGE);
  const legend = [];
  let x = EDGE;
  let y = round(Math.max(...panels.map(({ plot, top }) => top + plot.height)) + EDGE + LINE);
  series.forEach(({ name: whole }, place) => {
    const name = shorter(whole, width - 2 * EDGE - SWATCH - 6, pen);
    const room = SWATCH + 6 + pen.measureText(name).width;
    if (x > EDGE && x + room > width - EDGE) { x = EDGE; y += LINE; }
    legend.push({ x, y, name, place });
    x += room + 16;
  });
  if (note) {
    y += LINE;
    legend.push({ x: EDGE, y, name: shorter(note, width - 2 * EDGE, pen), place: null });
  }
  return { legend, titles, panels, width, height: y + EDGE };
}

function shorter(text, room, pen) {
  if (pen.measureText(text).width <= room) return text;
  let short = text;
  while (short && pen.measureText(`${short}…`).width > room) short = short.slice(0, -1);
  return `${short}…`;
}

// Where the chart's lines are, in pixels of the page.
function inside(plot) {
  const ratio = plot.ctx.canvas.width / plot.width;
  const { left, top, width, height } = plot.bbox;
  return { left: left / ratio, top: top / ratio, width: width / ratio, height: height / ratio };
}

function axes(plot, box, colours, isBars) {
  const [across, up] = plot.axes;
  const bottom = box.top + box.height;
  const made = [];
  up._splits.forEach((value, place) => {
    const y = round(box.top + plot.valToPos(value, "y"));
    made.push(s("line", { x1: box.left - 10, x2: box.left + box.width, y1: y, y2: y, stroke: colours.grid }));
    made.push(s("text", { x: box.left - 15, y: y + 4, "text-anchor": "end", fill: colours.dim }, up._values[place] ?? ""));
  });
  across._splits.forEach((value, place) => {
    const x = round(box.left + plot.valToPos(value, "x"));
    const label = across._values[place];
    if (!label) return;
    made.push(s("line", { x1: x, x2: x, y1: isBars ? bottom : box.top, y2: bottom + 10, stroke: colours.grid }));
    const y = bottom + 26;
    const turned = across._rotate ? { transform: `rotate(${-across._rotate} ${x} ${bottom + 20})`, "text-anchor": "end" } : { "text-anchor": "middle" };
    made.push(s("text", { x, y: across._rotate ? bottom + 20 : y, fill: colours.dim, ...turned },
      label.split("\n").map((part, row) => s("tspan", { x, dy: row ? 16 : 0 }, part))));
  });
  return made;
}

function line(plot, box, values, place, { xs }, colours) {
  const stroke = colours.series[place];
  const points = values.flatMap((value, at) => (value === null ? [] : [[round(box.left + plot.valToPos(xs[at], "x")), round(box.top + plot.valToPos(value, "y"))]]));
  const dash = colours.dashes[place];
  return [
    s("path", { d: points.map(([x, y], at) => `${at ? "L" : "M"}${x} ${y}`).join(""), fill: "none", stroke, "stroke-width": 2, "stroke-linejoin": "round", ...(dash ? { "stroke-dasharray": dash.join(" ") } : {}) }),
    xs.length < 80 ? points.map(([cx, cy]) => s("circle", { cx, cy, r: 3, fill: stroke })) : [],
  ];
}

function bars(plot, box, values, place, { xs, series }, colours) {
  const [from, width] = series.length === 1 ? [-0.36, 0.72] : [-0.4 + (0.8 * place) / series.length, 0.76 / series.length];
  const zero = plot.valToPos(0, "y");
  return values.flatMap((value, at) => {
    if (value === null) return [];
    const left = plot.valToPos(xs[at] + from, "x");
    const whole = plot.valToPos(xs[at] + from + width, "x") - left;
    const wide = series.length === 1 ? Math.min(whole, 80) : whole;
    const y = plot.valToPos(value, "y");
    return [s("rect", { x: round(box.left + left + (whole - wide) / 2), y: round(box.top + Math.min(y, zero)), width: round(wide), height: round(Math.abs(zero - y)), fill: colours.series[place] })];
  });
}

const round = (value) => Math.round(value * 100) / 100;

function s(tag, attributes, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (name !== "xmlns") element.setAttribute(name, String(value));
  element.append(...children.flat(Infinity));
  return element;
}
