// The blocks on the canvas: one path per state, so that ten thousand blocks need few strokes and fills.

const HATCHED = new Set(["quarantined", "partial"]);
const HOLLOW = new Set(["skipped"]);

/** Draw the visible blocks; returns how many were drawn. */
export function paint(timeline) {
  const { plot, data } = timeline;
  if (!data || !timeline.rows.length) return 0;
  const { ctx } = plot;
  const scale = devicePixelRatio;
  const area = { left: plot.bbox.left, top: plot.bbox.top, right: plot.bbox.left + plot.bbox.width, bottom: plot.bbox.top + plot.bbox.height };
  const [min, max] = timeline.shown();
  const perMs = (area.right - area.left) / (max - min);
  const colours = timeline.colours();
  const paths = data.states.map(() => new Path2D());
  const closed = new Path2D(); // excluded from merges
  let drawn = 0;
  for (const row of timeline.rows) {
    for (let at = 0; at < row.places.length; at += 1) {
      const i = row.places[at];
      if (data.low[i] > max) break;
      if (data.high[i] < min) continue;
      const left = Math.max(area.left + (data.low[i] - min) * perMs, area.left);
      const right = Math.min(area.left + (data.high[i] - min) * perMs, area.right);
      const gap = right - left > 4 * scale ? scale : 0;
      const width = Math.max(right - left - gap, 2 * scale);
      const top = area.top + (row.top + row.lane[at] * row.band) * scale;
      const height = (row.band - 2) * scale;
      paths[data.state[i]].rect(left, top, width, height);
      if (data.noCompact[i]) closed.rect(left, top + height - 2 * scale, width, 2 * scale);
      drawn += 1;
    }
  }
  ctx.save();
  ctx.beginPath();
  ctx.rect(area.left, area.top, area.right - area.left, area.bottom - area.top);
  ctx.clip();
  data.states.forEach((state, number) => {
    const colour = colours.get(`--state-${state}`);
    const ground = colours.get("--surface");
    ctx.fillStyle = HATCHED.has(state) ? hatch(ctx, colour, ground, scale) : HOLLOW.has(state) ? ground : colour;
    ctx.fill(paths[number]);
    if (HATCHED.has(state) || HOLLOW.has(state)) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = scale;
      ctx.stroke(paths[number]);
    }
  });
  ctx.fillStyle = colours.get("--text");
  ctx.fill(closed);
  ctx.restore();
  return drawn;
}

/** Stripes, for a state that must not depend on its colour alone. */
function hatch(ctx, colour, ground, scale) {
  const size = Math.round(6 * scale);
  const tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const pen = tile.getContext("2d");
  pen.fillStyle = ground;
  pen.fillRect(0, 0, size, size);
  pen.strokeStyle = colour;
  pen.lineWidth = size / 2;
  for (const shift of [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift - 1, size + 1);
    pen.lineTo(shift + size + 1, -1);
    pen.stroke();
  }
  return ctx.createPattern(tile, "repeat");
}
