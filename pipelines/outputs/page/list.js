// --- scenes and their shots -------------------------------------------------------------------------------------------

const list = byId("scenes");
let tiles = [];
const tilesByFrames = new Map();
const shownScenes = new Map();
const imageOf = ({ start_frame }) => `data:${data.images.type};base64,${images[data.file.shots.findIndex((shot) => shot.end_frame > start_frame)]}`;
const sideImages = new Map((data.images?.sides ?? []).map((shot, i) => [data.file.shots[shot], images.slice(data.file.shots.length + 2 * i).slice(0, 2)]));
/** The first and last keyframe of a shot for which one image is not enough. */
const sidesOf = ({ start_frame, end_frame }) => {
  const whole = data.file.shots.find((shot) => shot.start_frame === start_frame && shot.end_frame === end_frame);
  return sideImages.get(whole)?.map((image) => `data:${data.images.type};base64,${image}`);
};
const near = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) load(entry.target.shot);
}, { rootMargin: "400px 0px" });

function load(shot) {
  const { image, element } = tiles[shot];
  if (image.src || !data.images) return;
  image.src = imageOf(shots[shot]);
  near.unobserve(element);
}

function makeTile({ start_frame, end_frame, start, end, score, transition }) {
  const element = byId("shot-template").content.firstElementChild.cloneNode(true);
  const [frame, splitter, sign] = element.children;
  frame.title = `${timecode(start)} – ${timecode(end)} · ${seconds(end - start)} · frames ${start_frame}–${end_frame - 1} · score ${score.toFixed(3)}`;
  frame.querySelector(".caption span").textContent = clock(start);
  if (!transition || transition.kind === "cut") sign.remove();
  else {
    sign.title = `${transition.kind}, frames ${transition.start_frame}–${transition.end_frame - 1}`;
    sign.setAttribute("aria-label", `ends with a ${sign.title}`);
    sign.textContent = transition.kind[0].toUpperCase();
  }
  if (data.images) near.observe(element);
  return { element, frame, splitter, image: frame.firstElementChild };
}

/** The tiles of all shots, in order; existing tiles are reused. */
function makeTiles() {
  tiles = shots.map((shot, index) => {
    const key = `${shot.start_frame} ${shot.end_frame}`;
    if (!tilesByFrames.has(key)) tilesByFrames.set(key, makeTile(shot));
    const tile = tilesByFrames.get(key);
    if (tile.element.shot === index) return tile;
    tile.element.shot = index;
    tile.frame.querySelector(".caption b").textContent = index + 1;
    tile.frame.setAttribute("aria-label", `Shot ${index + 1} ${clock(shot.start)}, ${seconds(shot.end - shot.start)}, score ${shot.score.toFixed(2)}`);
    tile.splitter.setAttribute("aria-label", `New scene from shot ${index + 1}`);
    return tile;
  });
}

/** A scene in the list, with what depends on its shots alone. */
function makeScene(scene) {
  const element = byId("scene-template").content.firstElementChild.cloneNode(true);
  element.scene = scene;
  const part = (selector) => element.querySelector(selector);
  const own = tiles.slice(scene.start_shot, scene.end_shot).map((tile) => tile.element);
  part(".shots").replaceChildren(...own);
  element.style.setProperty("--shots", own.length);
  part(".times").textContent = `${scene.start_timecode} – ${scene.end_timecode}`;
  part(".length").textContent = seconds(scene.end - scene.start);
  part(".shot-count").textContent = count(own.length, "shot");
  const shown = {
    element, number: part(".number"), name: part(".name"),
    rename: part(".rename"), reviewed: part(".reviewed"), merge: part(".merge"), lines: part(".lines"),
  };
  const said = linesOf(scene);
  shown.text = textOf(said);
  shown.lines.hidden = !said.length;
  shown.lines.firstElementChild.textContent = shown.text;
  shown.lines.lastElementChild.replaceChildren(...said.map((line) => make("li", make("b", clock(line.start)), line.text)));
  return shown;
}

function showScene(scene) {
  const key = `${scene.start_frame} ${scene.end_frame} ${scene.end_shot - scene.start_shot}`;
  if (!shownScenes.has(key)) shownScenes.set(key, makeScene(scene));
  const shown = shownScenes.get(key);
  shown.element.scene = scene;
  const title = `scene ${scene.index + 1}`;
  shown.number.textContent = scene.index + 1;
  shown.number.setAttribute("aria-label", `Go to ${title}`);
  shown.number.title = `${scene.start_timecode} – ${scene.end_timecode} · confidence ${scene.confidence.toFixed(2)}`;
  if (!shown.name.querySelector("input")) shown.name.textContent = scene.name ?? "";
  shown.name.classList.toggle("automatic", Boolean(scene.named_by));
  shown.name.title = scene.named_by ? `${scene.name} (automatic; E gives another name)` : "";
  shown.rename.setAttribute("aria-label", `Rename ${title}`);
  shown.reviewed.setAttribute("aria-pressed", isReviewed(scene));
  shown.reviewed.setAttribute("aria-label", `Scene ${scene.index + 1} is reviewed`);
  shown.merge.hidden = scene.index === 0;
  shown.merge.title = `Merge scenes ${scene.index} and ${scene.index + 1}`;
  return shown;
}

function showList() {
  const focused = list.contains(document.activeElement) ? document.activeElement : null;
  const kept = new Set();
  let place = list.firstElementChild;
  for (const scene of scenes) {
    const shown = showScene(scene);
    kept.add(shown);
    if (shown.element === place) place = place.nextElementSibling;
    else list.insertBefore(shown.element, place);
  }
  for (const [key, shown] of shownScenes) {
    if (kept.has(shown)) continue;
    shown.element.remove();
    shownScenes.delete(key);
  }
  const firsts = new Set(scenes.map((scene) => scene.start_shot));
  tiles.forEach(({ element }, shot) => element.classList.toggle("first", firsts.has(shot)));
  filterList();
  if (focused && document.activeElement !== focused) focusShot();
}

/** The text that was searched last: the lines of scenes that say it are open, until a person closes them. */
let searched = "";
function filterList() {
  const text = byId("filter-name").value.trim().toLowerCase();
  const unreviewed = byId("filter-unreviewed").checked;
  let matching = 0;
  for (const shown of shownScenes.values()) {
    const { element } = shown;
    const { scene } = element;
    const isSaid = text !== "" && shown.text.toLowerCase().includes(text);
    if (text !== searched) shown.lines.open = isSaid;
    const matches = (!text || isSaid || titleOf(scene).toLowerCase().includes(text) || text === String(scene.index + 1))
      && (!unreviewed || !isReviewed(scene));
    element.hidden = !matches;
    matching += matches;
  }
  searched = text;
  byId("reviewed-count").textContent = `${scenes.filter(isReviewed).length} of ${scenes.length} reviewed`;
  byId("matching").textContent = matching < scenes.length ? `${matching} of ${count(scenes.length, "scene")}` : "";
}

/** Whether a shot is in no scene, or the filter hides its scene. */
const isFiltered = (shot) => !tiles[shot].element.closest("#scenes > :not([hidden])");

if (lines.length) byId("filter-name").placeholder = "Name or words";
for (const id of ["filter-name", "filter-unreviewed"]) byId(id).addEventListener("input", filterList);

function focusShot() {
  tiles[selected].frame.focus({ preventScroll: true });
}

function scrollToShot() {
  tiles[selected].element.scrollIntoView({ block: "nearest" });
}

function setMarked({ tile, scene }, isSelected) {
  for (const element of [tile.element, scene]) element?.classList.toggle("selected", isSelected);
  tile.frame.tabIndex = isSelected ? 0 : -1;
  tile.frame.ariaCurrent = isSelected ? "true" : null;
}

let marked = null;
function mark() {
  if (marked) setMarked(marked, false);
  marked = { tile: tiles[selected], scene: tiles[selected].element.closest(".scene") };
  setMarked(marked, true);
  showReadout();
  if (reviewing?.state) showMarks();
}

function select(shot, { seeks = true, scrolls = true, focuses = document.activeElement?.matches(".frame") } = {}) {
  selected = Math.min(Math.max(shot, 0), last);
  if (seeks) follows = true;
  mark();
  if (focuses) focusShot();
  if (scrolls) scrollToShot();
  if (seeks) seek(shots[selected].start_frame);
  if (video.paused) showAtCut();
  reveal(selected);
  draw();
}

/** Applies the name that is being typed. */
let applyName = () => {};

function editName(scene) {
  const shown = [...shownScenes.values()].find(({ element }) => element.scene === scene);
  if (shown.element.hidden) {
    tell("The filter hides this scene.");
    return;
  }
  const field = document.createElement("input");
  field.type = "text";
  field.maxLength = 200;
  field.value = scene.name ?? "";
  field.setAttribute("aria-label", `Name of scene ${scene.index + 1}`);
  let open = true;
  const close = (keeps) => {
    if (!open) return;
    open = false;
    applyName = () => {};
    const text = field.value;
    field.remove();
    shown.name.textContent = scene.name ?? "";
    if (keeps) rename(scene, text);
  };
  field.addEventListener("keydown", (event) => {
    // Saving first applies the name; undo first discards it. With Caps Lock letters are capitals.
    const command = event.ctrlKey || event.metaKey ? event.key.toLowerCase() : "";
    const cancels = event.key === "Escape" || (command === "z" && !event.shiftKey);
    if (event.isComposing || (!cancels && event.key !== "Enter" && !["s", "y", "z"].includes(command))) return;
    event.preventDefault();
    if (cancels) event.stopPropagation();
    close(!cancels);
    focusShot();
  });
  field.addEventListener("blur", () => close(true));
  applyName = () => close(true);
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
  else if (button.matches(".reviewed")) toggleReviewed(scene);
  else if (button.matches(".number")) select(scene.start_shot, { scrolls: false });
  else if (button.matches(".rename")) {
    select(scene.start_shot, { seeks: false, scrolls: false });
    editName(scene);
  } else if (button.matches(".merge")) mergeWithPrevious(scene);
});
