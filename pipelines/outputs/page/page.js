// The page itself: what it shows is made of one state (which shots end scenes, their names, the settings that chose
// them), and each change makes a new one, so that undo is to go back. Text from files only ever becomes textContent.
(() => {
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const pictures = byId("pictures").textContent.split("\n");
  const { shots, settings } = data.file;
  const scores = shots.map((shot) => shot.score);
  const shotEnds = shots.map((shot) => shot.end);
  const last = shots.length - 1;
  const duration = shots[last].end;
  const trueEnds = new Set(data.truth ? data.truth.shots : []);

  const number = (value, low, high, otherwise) =>
    typeof value === "number" && value >= low && value <= high ? value : otherwise;
  const fromFile = {
    ends: data.file.scenes.map((scene) => scene.end_shot - 1),
    names: new Map(data.file.scenes.filter((scene) => scene.name).map((scene) => [scene.start_shot, scene.name])),
    threshold: number(settings.threshold, 1e-9, 1 - 1e-9, 0.5),
    minScene: number(settings.min_scene, 0, Infinity, 0),
    by: "file",
  };
  let state = fromFile;
  let saved = state;
  let undone = [];
  let done = [];
  let sliding = false;
  let scenes = [];
  let selected = 0;
  let playing = -1;

  // --- numbers for people ---------------------------------------------------------------------------------------

  const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
  const seconds = (value) => {
    const whole = Math.round(value);
    return value < 59.95 ? `${value.toFixed(1)} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
  };
  const clock = (value) => {
    const whole = Math.floor(value + 1e-6);
    const two = (n) => String(n).padStart(2, "0");
    const minutes = Math.floor(whole / 60);
    return minutes < 60 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
  };
  const titleOf = (scene) => scene.name || `Scene ${scene.index + 1}`;
  const sceneOf = (shot) => scenes[countUpTo(state.ends, shot - 1)];
  const shotAt = (time) => Math.min(countUpTo(shotEnds, time), last);

  let fading = 0;
  function tell(text) {
    byId("status").textContent = text;
    clearTimeout(fading);
    fading = setTimeout(() => { byId("status").textContent = ""; }, 6000);
  }

  // --- changes, undo, redo ---------------------------------------------------------------------------------------

  function change(next, words, slides = false) {
    if (!(slides && sliding)) done.push(state);
    sliding = slides;
    undone = [];
    state = next;
    show();
    if (words) tell(words);
  }

  function step(from, to, words) {
    if (!from.length) return;
    to.push(state);
    state = from.pop();
    sliding = false;
    show();
    tell(words);
  }
  const undo = () => step(done, undone, "Undone.");
  const redo = () => step(undone, done, "Done again.");

  function regroup(threshold, minScene) {
    const ends = chooseSceneEnds(scores, shotEnds, threshold, minScene);
    const lost = state.by === "hand" ? "Scenes made by hand were replaced; Undo brings them back." : "";
    change({ ...state, ends, threshold, minScene, by: "threshold" }, lost, true);
  }

  function split(shot) {
    if (shot === 0 || sceneOf(shot).start_shot === shot) return;
    const ends = [...state.ends, shot - 1].sort((a, b) => a - b);
    change({ ...state, ends, by: "hand" }, `A new scene begins with shot ${shot + 1}.`);
  }

  function merge(scene) {
    if (scene.end_shot > last) return;
    const names = new Map(state.names);
    // A name of either is kept; of two, that of the first.
    if (!names.has(scene.start_shot) && names.has(scene.end_shot)) names.set(scene.start_shot, names.get(scene.end_shot));
    names.delete(scene.end_shot);
    const ends = state.ends.filter((end) => end !== scene.end_shot - 1);
    change({ ...state, ends, names, by: "hand" }, `Scenes ${scene.index + 1} and ${scene.index + 2} are one.`);
  }

  function name(scene, text) {
    const names = new Map(state.names);
    // Names go on one line of many formats.
    const clean = text.replace(/[\p{Cc}\p{Zl}\p{Zp}]+/gu, " ").trim();
    if (clean === (names.get(scene.start_shot) ?? "")) return;
    if (clean) names.set(scene.start_shot, clean);
    else names.delete(scene.start_shot);
    change({ ...state, names });
  }

  function content() {
    const changed = { ...settings };
    if (state.by !== "file") {
      Object.assign(changed, { threshold: state.threshold, min_scene: state.minScene, scenes: null });
      delete changed.edited_by_hand;
    }
    if (state.by === "hand") changed.edited_by_hand = true;
    return { ...data.file, settings: changed, scenes: groupShots(shots, state.ends, state.names) };
  }

  function save() {
    const file = new Blob([`${JSON.stringify(content(), null, 1)}\n`], { type: "application/json" });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(file);
    link.download = data.save_as;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    saved = state;
    show();
    tell(`Saved as ${data.save_as}: bassl score, build-index and export read it.`);
  }

  addEventListener("beforeunload", (event) => {
    if (state !== saved) event.preventDefault();
  });

  // --- scenes and their shots ------------------------------------------------------------------------------------

  const list = byId("scenes");
  const tiles = [];
  const shownScenes = new Map();
  const near = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) load(entry.target.shot);
  }, { rootMargin: "400px 0px" });

  function load(shot) {
    const image = tiles[shot].image;
    if (image.src || !data.pictures) return;
    image.src = `data:${data.pictures.type};base64,${pictures[shot]}`;
    near.unobserve(tiles[shot].element);
  }

  function makeTile(shot) {
    const element = byId("shot-template").content.firstElementChild.cloneNode(true);
    const [frame, splitter] = element.children;
    let badge = null;
    if (data.truth) {
      badge = document.createElement("span");
      element.append(badge);
    }
    const image = frame.firstElementChild;
    const { start, end, score } = shots[shot];
    element.shot = shot;
    frame.setAttribute("aria-label", `Shot ${shot + 1}, ${timecode(start)}, ${seconds(end - start)}, score ${score.toFixed(2)}`);
    frame.title = `${timecode(start)} – ${timecode(end)} · ${seconds(end - start)} · score ${score.toFixed(3)}`;
    const caption = frame.querySelector(".caption");
    caption.firstElementChild.textContent = shot + 1;
    caption.lastElementChild.textContent = clock(start);
    frame.querySelector(".score i").style.width = `${100 * score}%`;
    splitter.setAttribute("aria-label", `New scene from shot ${shot + 1}`);
    splitter.title = "Split: a new scene from this shot (S)";
    if (data.pictures) near.observe(element);
    return { element, frame, image, badge };
  }

  function makeScene() {
    const element = byId("scene-template").content.firstElementChild.cloneNode(true);
    const part = (selector) => element.querySelector(selector);
    return {
      element,
      number: part(".number"),
      name: part(".name"),
      times: part(".times"),
      length: part(".length"),
      shotCount: part(".shot-count"),
      gauge: part(".gauge i"),
      confidence: part(".confidence .value"),
      rename: part(".rename"),
      merge: part(".merge"),
      shots: part(".shots"),
    };
  }

  function showScene(scene) {
    const key = `${scene.start_shot} ${scene.end_shot}`;
    let shown = shownScenes.get(key);
    const isNew = !shown;
    if (isNew) {
      shown = makeScene();
      shownScenes.set(key, shown);
      const own = tiles.slice(scene.start_shot, scene.end_shot).map((tile) => tile.element);
      shown.shots.append(...own);
      shown.times.textContent = `${scene.start_timecode} – ${scene.end_timecode}`;
      shown.length.textContent = seconds(scene.end - scene.start);
      shown.shotCount.textContent = count(own.length, "shot");
    }
    shown.element.scene = scene;
    if (isNew) makeRoom(shown.element);
    shown.number.textContent = scene.index + 1;
    shown.number.setAttribute("aria-label", `Go to scene ${scene.index + 1}`);
    if (!shown.name.querySelector("input")) shown.name.textContent = scene.name ?? "";
    shown.gauge.style.width = `${100 * scene.confidence}%`;
    shown.confidence.textContent = `confidence ${scene.confidence.toFixed(2)}`;
    shown.rename.setAttribute("aria-label", `Rename scene ${scene.index + 1}`);
    shown.merge.setAttribute("aria-label", `Merge scene ${scene.index + 1} with the next`);
    shown.merge.disabled = scene.end_shot > last;
    return [key, shown];
  }

  function showList() {
    const focused = list.contains(document.activeElement) ? document.activeElement : null;
    const kept = new Set();
    let place = list.firstElementChild;
    for (const scene of scenes) {
      const [key, shown] = showScene(scene);
      kept.add(key);
      if (shown.element === place) place = place.nextElementSibling;
      else list.insertBefore(shown.element, place);
    }
    for (const [key, shown] of shownScenes) {
      if (!kept.has(key)) {
        shown.element.remove();
        shownScenes.delete(key);
      }
    }
    const chosen = new Set(state.ends);
    const firsts = new Set(scenes.map((scene) => scene.start_shot));
    tiles.forEach(({ element, badge }, shot) => {
      element.classList.toggle("first", firsts.has(shot));
      element.classList.toggle("passes", shot < last && scores[shot] >= state.threshold);
      if (!data.truth) return;
      const found = chosen.has(shot);
      const kind = shot === last ? "" : trueEnds.has(shot) ? (found ? "hit" : "miss") : found ? "extra" : "";
      badge.hidden = !kind;
      badge.className = `badge ${kind}`;
      badge.textContent = { hit: "● found", miss: "✕ missed", extra: "▲ not true", "": "" }[kind];
    });
    if (focused && document.activeElement !== focused) focusShot();
  }

  // Room for scenes that are not drawn yet, so that the scroll bar knows how long the list is. It is measured when the
  // width changes and not with each change of scenes, for to measure is to lay out the page.
  let columns = 6;
  let tileHeight = 120;
  function makeRoom(element) {
    const rows = Math.ceil((element.scene.end_shot - element.scene.start_shot) / columns);
    element.style.containIntrinsicSize = `auto ${Math.round(70 + rows * (tileHeight + 10))}px`;
  }
  function measureRoom() {
    columns = getComputedStyle(list.querySelector(".shots")).gridTemplateColumns.split(" ").length;
    tileHeight = tiles[selected].element.offsetHeight || tileHeight;
    for (const { element } of shownScenes.values()) makeRoom(element);
  }

  function focusShot() {
    tiles[selected].frame.focus({ preventScroll: true });
  }

  let marked = null;
  function mark() {
    if (marked) {
      marked.tile.element.classList.remove("selected");
      marked.scene.classList.remove("selected");
      marked.tile.frame.tabIndex = -1;
      marked.tile.frame.removeAttribute("aria-current");
    }
    const tile = tiles[selected];
    marked = { tile, scene: tile.element.closest(".scene") };
    tile.element.classList.add("selected");
    marked.scene.classList.add("selected");
    tile.frame.tabIndex = 0;
    tile.frame.setAttribute("aria-current", "true");
    showReadout(selected);
  }

  function select(shot, { seeks = true, scrolls = true, focuses = false } = {}) {
    selected = Math.min(Math.max(shot, 0), last);
    mark();
    if (focuses) focusShot();
    if (scrolls) tiles[selected].element.scrollIntoView({ block: "nearest" });
    if (seeks) seek(selected);
    reveal(selected);
    draw();
  }

  function rename(scene) {
    const shown = shownScenes.get(`${scene.start_shot} ${scene.end_shot}`);
    const field = document.createElement("input");
    field.type = "text";
    field.maxLength = 200;
    field.value = scene.name ?? "";
    field.setAttribute("aria-label", `Name of scene ${scene.index + 1}`);
    let open = true;
    const close = (keeps) => {
      if (!open) return;
      open = false;
      const text = field.value;
      field.remove();
      shown.name.textContent = scene.name ?? "";
      if (keeps) name(scene, text);
    };
    field.addEventListener("keydown", (event) => {
      event.stopPropagation();
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault();
      close(event.key === "Enter");
      focusShot();
    });
    field.addEventListener("blur", () => close(true));
    shown.name.replaceChildren(field);
    field.focus();
    field.select();
  }

  list.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const { scene } = button.closest(".scene");
    if (button.matches(".frame")) select(button.parentElement.shot, { scrolls: false, focuses: true });
    else if (button.matches(".split")) split(button.parentElement.shot);
    else if (button.matches(".number")) select(scene.start_shot, { scrolls: false });
    else if (button.matches(".rename")) {
      select(scene.start_shot, { seeks: false, scrolls: false });
      rename(scene);
    } else if (button.matches(".merge")) merge(scene);
  });

  // --- the film --------------------------------------------------------------------------------------------------

  const film = byId("film");

  function note(text, offers) {
    byId("film-note").textContent = text;
    byId("film-note").hidden = !text;
    byId("film-pick").hidden = !offers;
  }

  function seek(shot) {
    if (film.hidden) return;
    const { start, end, start_frame, end_frame } = shots[shot];
    // Into the first frame of the shot rather than on its edge, which rounding would put into the frame before.
    film.currentTime = start + (end - start) / (end_frame - start_frame) / 2;
  }

  function play() {
    if (film.hidden) return;
    if (film.paused) film.play();
    else film.pause();
  }

  function showPlaying() {
    const shot = shotAt(film.currentTime);
    if (shot !== playing) {
      if (playing >= 0) tiles[playing].element.classList.remove("now");
      tiles[shot].element.classList.add("now");
      playing = shot;
    }
    draw();
  }

  function setUpFilm() {
    byId("player").hidden = false;
    film.addEventListener("timeupdate", showPlaying);
    film.addEventListener("seeking", showPlaying);
    film.addEventListener("loadedmetadata", () => {
      film.hidden = false;
      note("", false);
    });
    film.addEventListener("error", () => {
      film.hidden = true;
      note(`${data.film.name} is not where it was, or is of a kind that this browser cannot play.`, true);
    });
    byId("film-file").addEventListener("change", (event) => {
      const [file] = event.target.files;
      if (!file) return;
      film.hidden = false;
      film.src = URL.createObjectURL(file);
    });
    if (data.film.source !== null) film.src = data.film.source;
    else {
      film.hidden = true;
      note(`${data.film.name} was not at hand when this page was made.`, true);
    }
  }

  // --- the timeline ----------------------------------------------------------------------------------------------

  const SVG = "http://www.w3.org/2000/svg";
  const track = byId("track");
  const AXIS = 18;
  const PLOT = 62;
  const BAND = 24;
  const MARKS = data.truth ? 18 : 0;
  const WINDOW = 4;
  const HEIGHT = AXIS + PLOT + BAND + MARKS + WINDOW + 4;
  const LEAST_SPAN = Math.min(duration, Math.max(2, duration / 4000));
  let view = { from: 0, span: duration };
  let width = 1000;
  let waiting = false;

  function drawn(kind, attributes, text) {
    const element = document.createElementNS(SVG, kind);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  const timeAt = (x) => view.from + (x / width) * view.span;
  const placeOf = (time) => ((time - view.from) / view.span) * width;

  function look(from, span) {
    const kept = Math.min(Math.max(span, LEAST_SPAN), duration);
    view = { from: Math.min(Math.max(from, 0), duration - kept), span: kept };
    draw();
  }

  function zoom(factor, x = placeOf((shots[selected].start + shots[selected].end) / 2)) {
    const centre = Math.min(Math.max(x, 0), width);
    const time = timeAt(centre);
    const span = Math.min(Math.max(view.span * factor, LEAST_SPAN), duration);
    look(time - (centre / width) * span, span);
  }

  /** Bring a shot into view where it is not. */
  function reveal(shot) {
    const { start, end } = shots[shot];
    if (start < view.from || end > view.from + view.span) look((start + end) / 2 - view.span / 2, view.span);
  }

  function draw() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      drawNow();
    });
  }

  function tickStep(span) {
    const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200];
    return steps.find((one) => (one / span) * width >= 64) ?? 14400;
  }

  function drawNow() {
    const [top, base] = [AXIS, AXIS + PLOT];
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
    const until = view.from + view.span;
    const here = sceneOf(selected);
    const first = shotAt(view.from);
    const end = Math.min(shotAt(until), last);
    const y = (score) => base - 2 - score * (PLOT - 8);

    const ticks = tickStep(view.span);
    for (let i = Math.ceil(view.from / ticks); i * ticks <= until; i += 1) {
      const x = placeOf(i * ticks).toFixed(1);
      svg.append(drawn("line", { class: "tick", x1: x, x2: x, y1: top - 4, y2: base }));
      const text = ticks < 1 ? (i * ticks).toFixed(1) : clock(i * ticks);
      svg.append(drawn("text", { x: Number(x) + 4, y: 11 }, text));
    }

    const [left, right] = [placeOf(shots[selected].start), placeOf(shots[selected].end)];
    svg.append(drawn("rect", { class: "here", x: left, y: top, width: Math.max(right - left, 1.5), height: PLOT }));
    const spikes = { others: "", chosen: "" };
    let tips = "";
    const chosen = new Set(state.ends);
    const dense = (end - first + 1) / width;
    for (let shot = first; shot <= Math.min(end, last - 1); shot += 1) {
      const x = placeOf(shots[shot].end).toFixed(1);
      const height = y(scores[shot]);
      spikes[chosen.has(shot) ? "chosen" : "others"] += `M${x} ${base}V${height.toFixed(1)}`;
      if (chosen.has(shot)) tips += `M${x} ${(height - 2.5).toFixed(1)}a2.5 2.5 0 1 1 0 5a2.5 2.5 0 1 1 0-5`;
    }
    svg.append(drawn("path", { class: "others", d: spikes.others, "stroke-width": dense > 0.4 ? 1 : 2 }));
    svg.append(drawn("path", { class: "chosen", d: spikes.chosen, "stroke-width": 2 }));
    svg.append(drawn("path", { class: "tips", d: tips }));
    const limit = y(state.threshold).toFixed(1);
    svg.append(drawn("line", { class: "limit", x1: 0, x2: width, y1: limit, y2: limit }));
    svg.append(drawn("text", { class: "limit-label", x: width - 4, y: limit - 4, "text-anchor": "end" }, shownThreshold()));

    for (const scene of scenes) {
      if (scene.end <= view.from || scene.start >= until) continue;
      const [x, x2] = [Math.max(placeOf(scene.start), 0), Math.min(placeOf(scene.end), width)];
      const classes = `${scene.index % 2 ? "odd" : ""} ${scene === here ? "selected" : ""}`;
      const gap = x2 - x > 4 ? 1 : 0;
      svg.append(drawn("rect", { class: `scene-band ${classes}`, x, y: base + 1, width: Math.max(x2 - x - gap, 0.5), height: BAND - 2, rx: gap * 3, "data-scene": scene.index }));
      const title = scene.name && x2 - x > 60 ? scene.name : String(scene.index + 1);
      const letters = Math.floor((x2 - x - 10) / 6.5);
      if (letters >= String(scene.index + 1).length) {
        const text = title.length > letters ? `${title.slice(0, Math.max(letters - 1, 1))}…` : title;
        svg.append(drawn("text", { class: `scene-label ${classes}`, x: x + 6, y: base + 16 }, text));
      }
    }

    if (data.truth) {
      const centre = base + BAND + 9;
      const at = (x) => `translate(${x.toFixed(1)} ${centre})`;
      const kinds = { hit: "M-4.500 0a4.500 4.500 0 1 1 9 0a4.500 4.500 0 1 1-9 0", miss: "m-4-4 8 8m0-8-8 8", extra: "M0-4.500 4.800 4h-9.600z" };
      const put = (kind, time) => {
        if (time >= view.from && time <= until) svg.append(drawn("path", { class: kind, d: kinds[kind], transform: at(placeOf(time)) }));
      };
      for (const shot of state.ends) if (shot < last && !trueEnds.has(shot)) put("extra", shots[shot].end);
      for (const shot of data.truth.shots) put(chosen.has(shot) ? "hit" : "miss", shots[shot].end);
      for (const time of data.truth.elsewhere) put("miss", time);
    }

    if (playing >= 0) {
      const x = placeOf(Math.min(film.currentTime, duration)).toFixed(1);
      svg.append(drawn("line", { class: "head", x1: x, x2: x, y1: top - 4, y2: base + BAND }));
    }
    if (view.span < duration * 0.9999) {
      svg.append(drawn("rect", { class: "whole", x: 0, y: HEIGHT - WINDOW, width, height: WINDOW, rx: 2 }));
      svg.append(drawn("rect", { class: "window", x: (view.from / duration) * width, y: HEIGHT - WINDOW, width: Math.max((view.span / duration) * width, 3), height: WINDOW, rx: 2 }));
    }
    track.replaceChildren(svg);
    byId("zoom-in").disabled = view.span <= LEAST_SPAN * 1.0001;
    byId("zoom-out").disabled = byId("zoom-fit").disabled = view.span >= duration * 0.9999;
  }

  function showReadout(shot) {
    const { start, score } = shots[shot];
    const scene = sceneOf(shot);
    const parts = [titleOf(scene), `shot ${shot + 1}`, timecode(start), `score ${score.toFixed(3)}`];
    const strong = document.createElement("b");
    strong.textContent = parts[0];
    const others = parts.slice(1).map((text) => {
      const part = document.createElement("span");
      part.textContent = text;
      return part;
    });
    byId("readout").replaceChildren(strong, ...others);
    track.setAttribute("aria-valuenow", shot + 1);
    track.setAttribute("aria-valuetext", `Shot ${shot + 1}, ${titleOf(scene)}, ${timecode(start)}, score ${score.toFixed(2)}`);
  }

  function setUpTimeline() {
    byId("timeline").hidden = false;
    const peek = byId("peek");
    const [peekImage, peekText] = peek.children;
    const xOf = (event) => ((event.clientX - track.getBoundingClientRect().left) / track.clientWidth) * width;
    let grip = null;

    track.addEventListener("wheel", (event) => {
      const scale = event.deltaMode === 1 ? 20 : 1;
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
        if (view.span >= duration) return;
        event.preventDefault();
        look(view.from + (((event.deltaX || event.deltaY) * scale) / width) * view.span, view.span);
        return;
      }
      // Out beyond the whole film the wheel scrolls the page again.
      if (event.deltaY > 0 && view.span >= duration * 0.9999) return;
      event.preventDefault();
      zoom(Math.exp(Math.min(Math.max(event.deltaY * scale, -200), 200) * 0.003), xOf(event));
    }, { passive: false });

    track.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      grip = { x: event.clientX, from: view.from, moved: false };
      track.setPointerCapture(event.pointerId);
    });
    track.addEventListener("pointermove", (event) => {
      if (grip && (grip.moved || Math.abs(event.clientX - grip.x) > 4)) {
        grip.moved = true;
        track.classList.add("dragged");
        peek.hidden = true;
        look(grip.from - ((event.clientX - grip.x) / track.clientWidth) * view.span, view.span);
      } else if (!grip && event.pointerType === "mouse") showPeek(event);
    });
    track.addEventListener("pointerup", (event) => {
      const clicked = grip && !grip.moved;
      grip = null;
      track.classList.remove("dragged");
      if (!clicked) return;
      const shot = shotAt(timeAt(xOf(event)));
      const y = event.clientY - track.getBoundingClientRect().top;
      const inBand = y > AXIS + PLOT && y < AXIS + PLOT + BAND;
      select(inBand ? sceneOf(shot).start_shot : shot);
    });
    track.addEventListener("pointercancel", () => { grip = null; });
    track.addEventListener("pointerleave", () => { peek.hidden = true; });

    function showPeek(event) {
      const shot = shotAt(timeAt(xOf(event)));
      peekImage.hidden = !data.pictures;
      if (data.pictures) peekImage.src = `data:${data.pictures.type};base64,${pictures[shot]}`;
      peekText.textContent = `${titleOf(sceneOf(shot))} · shot ${shot + 1} · ${clock(shots[shot].start)} · ${scores[shot].toFixed(2)}`;
      peek.hidden = false;
      const box = byId("timeline").getBoundingClientRect();
      const left = event.clientX - box.left - peek.offsetWidth / 2;
      peek.style.left = `${Math.min(Math.max(left, 8), box.width - peek.offsetWidth - 8)}px`;
    }

    byId("zoom-in").addEventListener("click", () => zoom(0.5));
    byId("zoom-out").addEventListener("click", () => zoom(2));
    byId("zoom-fit").addEventListener("click", () => look(0, duration));
    new ResizeObserver(() => {
      if (!printing()) width = Math.max(track.clientWidth, 200);
      // On small screens the timeline scrolls away, and only the bar stays.
      const stays = getComputedStyle(byId("timeline")).position === "sticky" ? byId("timeline").offsetHeight : 0;
      document.documentElement.style.setProperty("--top", `${document.querySelector(".bar").offsetHeight + stays}px`);
      measureRoom();
      draw();
    }).observe(track);
  }

  // --- the panels ------------------------------------------------------------------------------------------------

  const shownThreshold = () => String(Number(state.threshold.toFixed(3)));

  function showPanels() {
    byId("count").textContent = `${count(scenes.length, "scene")} · ${count(shots.length, "shot")} · ${clock(duration)}`;
    byId("number").textContent = count(scenes.length, "scene");
    byId("threshold").value = state.threshold;
    for (const [id, value] of [["threshold-number", shownThreshold()], ["min-scene", String(state.minScene)]]) {
      if (document.activeElement !== byId(id)) byId(id).value = value;
    }
    const exact = typeof settings.scenes === "number" ? `Exactly ${count(settings.scenes, "scene")} were asked for, whatever the threshold.` : "";
    byId("origin").textContent = {
      file: settings.edited_by_hand ? "As in the file, which was corrected by hand." : exact || "As in the file.",
      threshold: "By threshold: what bassl predict finds with it.",
      hand: "Corrected by hand.",
    }[state.by];
    byId("undo").disabled = !done.length;
    byId("redo").disabled = !undone.length;
    if (!data.truth) return;
    const found = state.ends.filter((shot) => shot < last);
    const hits = found.filter((shot) => trueEnds.has(shot)).length;
    const misses = trueEnds.size + data.truth.elsewhere.length - hits;
    const extras = found.length - hits;
    byId("hits").textContent = hits;
    byId("misses").textContent = misses;
    byId("extras").textContent = extras;
    const share = (of) => (of ? `${((100 * hits) / of).toFixed(1)} %` : "–");
    const f1 = hits + misses + extras ? `${((200 * hits) / (2 * hits + misses + extras)).toFixed(1)} %` : "–";
    byId("measures").textContent = `Precision ${share(hits + extras)} · recall ${share(hits + misses)} · F1 ${f1}`;
  }

  function setUpPanels() {
    byId("grouping").hidden = false;
    byId("threshold").addEventListener("input", (event) => regroup(Number(event.target.value), state.minScene));
    byId("threshold").addEventListener("change", () => { sliding = false; });
    const typed = (id, low, high, use) => {
      byId(id).addEventListener("input", (event) => {
        const value = event.target.valueAsNumber;
        if (value >= low && value <= high) use(value);
      });
      byId(id).addEventListener("blur", () => {
        sliding = false;
        showPanels();
      });
    };
    typed("threshold-number", 0.001, 0.999, (value) => regroup(value, state.minScene));
    typed("min-scene", 0, Infinity, (value) => regroup(state.threshold, value));
    if (data.truth) {
      byId("truth").hidden = false;
      const { source, shots: on, elsewhere, tolerance } = data.truth;
      const off = elsewhere.length ? ` ${count(elsewhere.length, "true end")} of ${on.length + elsewhere.length} found no end of a shot within ${tolerance} s.` : "";
      byId("truth-source").textContent = `Truth: ${source}.${off}`;
    }
    byId("undo").addEventListener("click", undo);
    byId("redo").addEventListener("click", redo);
    byId("save").addEventListener("click", save);
    byId("keys").addEventListener("click", () => byId("help").showModal());
    byId("theme").addEventListener("click", () => {
      const root = document.documentElement;
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    });
  }

  // --- keys ------------------------------------------------------------------------------------------------------

  function moveScene(by) {
    const scene = scenes[Math.min(Math.max(sceneOf(selected).index + by, 0), scenes.length - 1)];
    select(scene.start_shot, { seeks: false, focuses: !onTrack() });
  }
  const moveShot = (to) => select(to, { seeks: false, focuses: !onTrack() });
  const onTrack = () => document.activeElement === track;
  const KEYS = {
    ArrowLeft: () => moveShot(selected - 1),
    ArrowRight: () => moveShot(selected + 1),
    ArrowUp: () => moveScene(-1),
    ArrowDown: () => moveScene(1),
    Home: () => moveShot(0),
    End: () => moveShot(last),
    Enter: () => select(selected, { focuses: !onTrack() }),
    p: play,
    s: () => split(selected),
    m: () => merge(sceneOf(selected)),
    n: () => rename(sceneOf(selected)),
    "+": () => zoom(0.5),
    "=": () => zoom(0.5),
    "-": () => zoom(2),
    0: () => look(0, duration),
  };

  document.addEventListener("keydown", (event) => {
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    if (event.ctrlKey || event.metaKey) {
      if (event.altKey || event.target.matches("input:not([type=range])")) return;
      const action = { z: event.shiftKey ? redo : undo, y: redo, s: save }[key];
      if (!action) return;
      event.preventDefault();
      action();
      return;
    }
    if (event.altKey || !event.target.closest(".frame, .track") || !Object.hasOwn(KEYS, key)) return;
    event.preventDefault();
    KEYS[key]();
  });

  // --- paper -----------------------------------------------------------------------------------------------------

  const paper = matchMedia("print");
  const printing = () => paper.matches;
  function prepareForPaper() {
    for (let shot = 0; shot <= last; shot += 1) {
      tiles[shot].image.decoding = "sync";
      load(shot);
    }
    view = { from: 0, span: duration };
    width = 1000;
    drawNow();
  }
  addEventListener("beforeprint", prepareForPaper);
  addEventListener("afterprint", () => {
    width = Math.max(track.clientWidth, 200);
    draw();
  });
  paper.addEventListener("change", () => { if (printing()) prepareForPaper(); });

  // --- all of it -------------------------------------------------------------------------------------------------

  function show() {
    scenes = groupShots(shots, state.ends, state.names);
    showList();
    mark();
    showPanels();
    draw();
  }

  if (data.pictures) document.documentElement.style.setProperty("--aspect", `${data.pictures.width} / ${data.pictures.height}`);
  else list.classList.add("plain");
  for (let shot = 0; shot <= last; shot += 1) tiles.push(makeTile(shot));
  setUpPanels();
  setUpFilm();
  show();
  setUpTimeline();
})();
