// The pointer on the timeline: hover, click, wheel, pan with one finger and zoom with two.

export class Gestures {
  constructor(timeline) {
    this.timeline = timeline;
    this.fingers = new Map();
    this.over = null;
    this.pressed = null;
  }

  watch(over) {
    if (this.over === over) return;
    this.over = over;
    over.addEventListener("pointermove", (event) => this.moved(event));
    over.addEventListener("pointerleave", () => this.fingers.size || this.timeline.hover(-1));
    over.addEventListener("pointerdown", (event) => this.down(event));
    for (const end of ["pointerup", "pointercancel"]) over.addEventListener(end, (event) => this.up(event));
    over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    over.addEventListener("dblclick", () => this.timeline.zoomTo(null));
  }

  point(event) {
    const box = this.over.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    const [x, y] = this.point(event);
    this.pressed = { x, y, moved: false };
    if (event.pointerType === "mouse") return;
    this.fingers.set(event.pointerId, x);
    this.start = { range: [...this.timeline.shown()], fingers: new Map(this.fingers) };
  }

  moved(event) {
    const [x, y] = this.point(event);
    if (this.pressed && Math.hypot(x - this.pressed.x, y - this.pressed.y) > 5) this.pressed.moved = true;
    if (this.fingers.has(event.pointerId)) {
      this.fingers.set(event.pointerId, x);
      if (this.pressed?.moved) this.drag();
      return;
    }
    if (event.buttons === 0) this.timeline.hover(this.timeline.at(x, y), event.clientX, event.clientY);
  }

  up(event) {
    const [x, y] = this.point(event);
    const wasTap = this.pressed && !this.pressed.moved && event.type === "pointerup" && this.fingers.size <= 1;
    this.fingers.delete(event.pointerId);
    this.pressed = null;
    this.start = { range: [...this.timeline.shown()], fingers: new Map(this.fingers) };
    if (!wasTap || event.button > 0) return;
    const found = this.timeline.at(x, y);
    if (found >= 0) this.timeline.current = found;
    this.timeline.choose(found);
  }

  /** One finger moves the visible times, two stretch them: the time under a finger stays there. */
  drag() {
    const [min, max] = this.start.range;
    const width = this.over.clientWidth;
    const valueAt = (x) => min + ((max - min) * x) / width;
    const pairs = [...this.fingers].map(([id, x]) => [this.start.fingers.get(id) ?? x, x]);
    if (pairs.length === 1) {
      const shift = valueAt(pairs[0][0]) - valueAt(pairs[0][1]);
      this.timeline.zoomTo([min + shift, max + shift], { quiet: true });
      return;
    }
    const [[from1, to1], [from2, to2]] = pairs;
    if (Math.abs(to2 - to1) < 12 || from1 === from2) return;
    const perPixel = (valueAt(from2) - valueAt(from1)) / (to2 - to1);
    if (perPixel <= 0) return;
    const low = valueAt(from1) - to1 * perPixel;
    this.timeline.zoomTo([low, low + width * perPixel], { quiet: true });
  }

  /** The wheel zooms with Ctrl or ⌘ and pans with Shift or sideways; otherwise it scrolls the page. */
  wheel(event) {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.timeline.zoomBy(event.deltaY > 0 ? 1.25 : 0.8, this.point(event)[0] / this.over.clientWidth);
    } else if (Math.abs(sideways) > Math.abs(event.shiftKey ? 0 : event.deltaY) && this.timeline.range) {
      event.preventDefault();
      this.timeline.pan(sideways > 0 ? 0.12 : -0.12);
    }
  }
}
