// --- the timeline ----------------------------------------------------------------------------------------------------

const SVG = "http://www.w3.org/2000/svg";
const track = byId("track");
const AXIS = 18;
const BAND = 24;
/** Longest first, so that black is drawn over credits. */
const segments = [...data.file.segments ?? []].sort((a, b) => b.end - b.start - (a.end - a.start));
const LANE = segments.length ? 9 : 0;
const WINDOW = 4;
const narrow = matchMedia("(max-width: 40rem)"); // as in page.css
const plot = () => (narrow.matches ? 34 : 62);
/** The y coordinate of a score. */
const heightOf = (score) => AXIS + plot() - 2 - score * (plot() - 8);
const LEAST_SPAN = Math.min(duration, Math.max(2, duration / 4000));
let view = { from: beginning, span: duration };
let width = 1000;
let pending = 0;

function drawn(kind, attributes, text) {
  const element = document.createElementNS(SVG, kind);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const timeAt = (x) => view.from + (x / width) * view.span;
const placeOf = (time) => ((time - view.from) / view.span) * width;
/** Where the visible part of something begins and ends; if nothing of it is visible, not before it begins. */
const clip = ({ start, end }) => [Math.max(placeOf(start), 0), Math.min(placeOf(end), width)];

function look(from, span) {
  const kept = Math.min(Math.max(span, LEAST_SPAN), duration);
  view = { from: Math.min(Math.max(from, beginning), ending - kept), span: kept };
  draw();
}

function zoom(factor, x = placeOf((shots[selected].start + shots[selected].end) / 2)) {
  const center = Math.min(Math.max(x, 0), width);
  const time = timeAt(center);
  const span = Math.min(Math.max(view.span * factor, LEAST_SPAN), duration);
  look(time - (center / width) * span, span);
}

/** Move the view to a shot that is outside it. */
function reveal(shot) {
  const { start, end } = shots[shot];
  if (start < view.from || end > view.from + view.span) look((start + end) / 2 - view.span / 2, view.span);
}

function draw() {
  pending ||= requestAnimationFrame(() => {
    pending = 0;
    drawNow();
  });
}

function tickStep(span) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
  return steps.find((step) => (step / span) * width >= 64) ?? 14400;
}

function drawNow() {
  const [top, base] = [AXIS, AXIS + plot()];
  const full = base + BAND + LANE + WINDOW + 4;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${full}`, "aria-hidden": "true" });
  const until = view.from + view.span;
  const here = sceneOf(selected);
  const first = shotAt(view.from);
  const end = shotAt(until);

  const ticks = tickStep(view.span);
  for (let i = Math.ceil(view.from / ticks); i * ticks <= until; i += 1) {
    const x = placeOf(i * ticks).toFixed(1);
    svg.append(drawn("line", { class: "tick", x1: x, x2: x, y1: top - 4, y2: base }));
    const text = ticks < 1 ? (i * ticks).toFixed(1) : clock(i * ticks);
    svg.append(drawn("text", { x: Number(x) + 4, y: 11 }, text));
  }

  const [left, right] = [placeOf(shots[selected].start), placeOf(shots[selected].end)];
  svg.append(drawn("rect", { class: "here", x: left, y: top, width: Math.max(right - left, 1.5), height: base - top }));
  const spikes = { others: "", chosen: "" };
  let tips = "";
  const isEnd = (shot) => ends.has(endFrames[shot]);
  const dense = (end - first + 1) / width;
  for (let shot = first; shot <= Math.min(end, last - 1); shot += 1) {
    const x = placeOf(shots[shot].end).toFixed(1);
    const height = heightOf(scores[shot]);
    spikes[isEnd(shot) ? "chosen" : "others"] += `M${x} ${base}V${height.toFixed(1)}`;
    if (isEnd(shot)) tips += `M${x} ${(height - 2.5).toFixed(1)}a2.5 2.5 0 1 1 0 5a2.5 2.5 0 1 1 0-5`;
  }
  svg.append(drawn("path", { class: "others", d: spikes.others, "stroke-width": dense > 0.4 ? 1 : 2 }));
  svg.append(drawn("path", { class: "chosen", d: spikes.chosen, "stroke-width": 2 }));
  svg.append(drawn("path", { class: "tips", d: tips }));
  for (const frame of movedElsewhere.state === state ? movedElsewhere.frames : []) {
    const x = placeOf(shots[shotOf(frame)].start).toFixed(1);
    svg.append(drawn("line", { class: "moved", x1: x, x2: x, y1: top, y2: base + BAND }));
  }
  for (const [frame, isEnd, by] of state.pins) {
    const time = shots[shotOf(frame - 1)].end;
    if (time < view.from || time > until) continue;
    const kind = isEnd ? { class: "confirmed", d: "M-4 0h8v-4l-4-3.5-4 3.5z" } : { class: "refused", d: "m-3-7 6 6m0-6-6 6" };
    if (by) kind.class += " by-program";
    svg.append(drawn("path", { ...kind, transform: `translate(${placeOf(time).toFixed(1)} ${base})` }));
  }
  const limit = heightOf(state.threshold).toFixed(1);
  svg.append(drawn("line", { class: "limit", x1: 0, x2: width, y1: limit, y2: limit }));
  svg.append(drawn("text", { class: "limit-label", x: width - 4, y: limit - 4, "text-anchor": "end" }, shownThreshold()));

  for (const scene of scenes) {
    const [x, x2] = clip(scene);
    if (x2 <= x) continue;
    const classes = `${scene.index % 2 ? "odd" : ""} ${scene === here ? "selected" : ""}`;
    const gap = x2 - x > 4 ? 1 : 0;
    svg.append(drawn("rect", { class: `scene-band ${classes}`, x, y: base + 1, width: Math.max(x2 - x - gap, 0.5), height: BAND - 2, rx: gap * 3 }));
    const title = scene.name && x2 - x > 60 ? scene.name : String(scene.index + 1);
    const letters = Math.floor((x2 - x - 10) / 6.5);
    if (letters >= String(scene.index + 1).length) {
      const text = title.length > letters ? `${title.slice(0, Math.max(letters - 1, 1))}…` : title;
      svg.append(drawn("text", { class: `scene-label ${classes}`, x: x + 6, y: base + 16 }, text));
    }
  }

  for (const { kind, start, end } of segments) {
    const [x, x2] = clip({ start, end });
    if (x2 <= x) continue;
    svg.append(drawn("rect", { class: `segment ${kind}`, x, y: base + BAND + 2, width: Math.max(x2 - x, 1.5), height: LANE - 3 }));
  }

  if (playing >= 0) {
    const x = placeOf(videoTime).toFixed(1);
    svg.append(drawn("line", { class: "head", x1: x, x2: x, y1: top - 4, y2: base + BAND }));
  }
  if (view.span < duration * 0.9999) {
    svg.append(drawn("rect", { class: "whole", x: 0, y: full - WINDOW, width, height: WINDOW, rx: 2 }));
    svg.append(drawn("rect", { class: "window", x: ((view.from - beginning) / duration) * width, y: full - WINDOW, width: Math.max((view.span / duration) * width, 3), height: WINDOW, rx: 2 }));
  }
  track.replaceChildren(svg);
  byId("zoom-in").disabled = view.span <= LEAST_SPAN * 1.0001;
  byId("zoom-out").disabled = byId("zoom-fit").disabled = view.span >= duration * 0.9999;
}

function showReadout() {
  const { start, end, score } = shots[selected];
  const title = titleOf(sceneOf(selected));
  const own = segments.filter((segment) => segment.start < end && segment.end > start);
  const kinds = [...new Set(own.map(({ kind }) => data.segment_names[kind]))].join(", ");
  [title, `shot ${selected + 1}`, timecode(start), kinds].forEach((text, i) => {
    byId("readout").children[i].textContent = text;
  });
  track.setAttribute("aria-valuenow", selected + 1);
  track.setAttribute("aria-valuetext", `Shot ${selected + 1}, ${title}, ${timecode(start)}, score ${score.toFixed(2)}${kinds && `, ${kinds}`}`);
}

/** The scene that begins nearest to x, within ``reach`` pixels. */
function sceneAtEdge(x, reach) {
  const distance = (scene) => Math.abs(placeOf(scene.start) - x);
  const near = scenes.filter((scene) => scene.start_shot > 0 && distance(scene) <= reach);
  return near.sort((a, b) => distance(a) - distance(b))[0];
}

/** The height of what stays above the list, the bar and on large screens the timeline, and on small screens below it. */
function measureTop() {
  const root = document.documentElement.style;
  const height = (id, position) => (getComputedStyle(byId(id)).position === position ? byId(id).offsetHeight : 0);
  root.setProperty("--bar-height", `${height("bar", "sticky")}px`);
  root.setProperty("--top", `${height("bar", "sticky") + height("timeline", "sticky")}px`);
  root.setProperty("--dock", `${height("player", "fixed")}px`);
}

function setUpTimeline() {
  const xOf = (event) => ((event.clientX - track.getBoundingClientRect().left) / track.clientWidth) * width;
  let grip = null;

  /** What a press here would drag: the start of a scene, or the view. */
  function kindAt(event) {
    const scene = sceneAtEdge(xOf(event), event.pointerType === "mouse" ? 4 : 12);
    return scene ? { kind: "edge", frame: scene.start_frame } : { kind: "view", from: view.from };
  }

  function drag(event) {
    if (grip.kind === "view") look(grip.from - ((event.clientX - grip.x) / track.clientWidth) * view.span, view.span);
    else {
      const at = scenes.findIndex((scene) => scene.start_frame === grip.frame);
      const time = timeAt(xOf(event));
      const shot = shotAt(time);
      const { start, end } = shots[shot];
      if (!moveStart(scenes[at], time - start < end - time ? shot : shot + 1, true)) return;
      grip.frame = scenes[at].start_frame;
    }
  }

  track.addEventListener("wheel", (event) => {
    const scale = event.deltaMode === 1 ? 20 : 1;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      if (view.span >= duration) return;
      event.preventDefault();
      look(view.from + (((event.deltaX || event.deltaY) * scale) / width) * view.span, view.span);
      return;
    }
    // When the whole video is visible, the wheel scrolls the page.
    if (event.deltaY > 0 && view.span >= duration * 0.9999) return;
    event.preventDefault();
    zoom(Math.exp(Math.min(Math.max(event.deltaY * scale, -200), 200) * 0.003), xOf(event));
  }, { passive: false });

  track.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    grip = { ...kindAt(event), x: event.clientX, y: event.clientY, moved: false };
    track.setPointerCapture(event.pointerId);
  });
  track.addEventListener("pointermove", (event) => {
    if (grip && (grip.moved || Math.hypot(event.clientX - grip.x, event.clientY - grip.y) > 4)) {
      if (!grip.moved) sliding = false;
      grip.moved = true;
      drag(event);
    } else if (!grip && event.pointerType === "mouse") track.dataset.over = kindAt(event).kind;
  });
  track.addEventListener("pointerup", (event) => {
    const clicked = grip && !grip.moved;
    grip = null;
    sliding = false;
    if (!clicked) return;
    const shot = shotAt(timeAt(xOf(event)));
    const y = event.clientY - track.getBoundingClientRect().top - AXIS - plot();
    select(y > 0 && y < BAND ? sceneOf(shot)?.start_shot ?? shot : shot);
  });
  track.addEventListener("pointercancel", () => { grip = null; });

  new ResizeObserver(() => {
    width = Math.max(track.clientWidth, 200);
    measureTop();
    draw();
  }).observe(track);
  const tops = new ResizeObserver(measureTop);
  for (const id of ["bar", "player"]) tops.observe(byId(id));
}
