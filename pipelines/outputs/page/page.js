// --- the panels ------------------------------------------------------------------------------------------------------

const oneColumn = matchMedia("(max-width: 62rem)"); // as in page.css

const shownThreshold = () => String(Number(state.threshold.toFixed(3)));

function showPanels() {
  byId("count").textContent = `${count(scenes.length, "scene")} · ${count(shots.length, "shot")} · ${clock(duration)}`;
  byId("unsaved").hidden = state === saved;
  byId("number").textContent = count(scenes.length, "scene");
  byId("threshold").value = state.threshold;
  // Do not change a number while it is typed.
  if (byId("threshold-number").valueAsNumber !== state.threshold) byId("threshold-number").value = shownThreshold();
  if (byId("min-scene").valueAsNumber !== state.minScene) byId("min-scene").value = state.minScene;
  if ((byId("max-scene").valueAsNumber || 0) !== state.maxScene) byId("max-scene").value = state.maxScene || "";
  byId("origin").textContent = settings.scenes && state.by === "file" ? `The number of scenes was set to ${settings.scenes}, regardless of the threshold.`
    : settings.edited_by_hand || state.pins.length || state.cuts.length ? "Scenes follow the threshold; your corrections stay." : "";
  for (const [id, label, changes] of [["undo", "Undo", done], ["redo", "Redo", undone]]) {
    const words = changes.length ? `${label}: ${changes.at(-1).action}` : label;
    byId(id).disabled = !changes.length;
    byId(id).title = words;
    byId(id).setAttribute("aria-label", words);
  }
  byId("undo").lastElementChild.textContent = byId("undo").title;
}

function setUpPanels() {
  const arrange = () => { byId("grouping").open = !oneColumn.matches; showAtCut(); };
  oneColumn.addEventListener("change", arrange);
  arrange();
  byId("threshold").addEventListener("input", (event) => regroup({ threshold: Number(event.target.value) }));
  byId("threshold").addEventListener("change", () => { sliding = false; });
  const typed = (id, low, high, use, empty = NaN) => {
    byId(id).addEventListener("input", (event) => {
      const value = event.target.value === "" ? empty : event.target.valueAsNumber;
      if (value >= low && value <= high) use(value);
    });
    byId(id).addEventListener("blur", () => {
      sliding = false;
      showPanels();
    });
  };
  typed("threshold-number", 0.001, 0.999, (threshold) => regroup({ threshold }));
  typed("min-scene", 0, Infinity, (minScene) => regroup({ minScene }));
  typed("max-scene", 0, Infinity, (maxScene) => regroup({ maxScene }), 0);
}

// --- keys ---------------------------------------------------------------------------------------------------------------

function moveScene(by) {
  // Back first goes to the start of this scene, as in players.
  const shown = scenes.filter((scene) => !isFiltered(scene.start_shot));
  const to = by > 0 ? shown.find((scene) => scene.start_shot > selected) : shown.findLast((scene) => scene.start_shot < selected);
  if (to) select(to.start_shot);
}

/** A function that does something with the scene of the selected shot. */
const withScene = (action) => () => {
  const scene = sceneOf(selected);
  if (scene) action(scene);
  else tell("This shot is in no scene.");
};

/** Show the keys of the mode. */
function showHelp() {
  const rows = reviewing ? REVIEW_KEYS : LIST_KEYS;
  byId("help-keys").replaceChildren(...rows.map(([keys, text]) => {
    const names = keys.split(" ").flatMap((key) => [make("kbd", key), " "]);
    return make("tr", make("th", ...names), make("td", text));
  }));
  byId("help").showModal();
}

// Keys with what they do, as in the list of keys, and their functions by the browser's names of keys.
const COMMON_KEYS = [
  ["Space K", "play or pause the video", { " ": play, k: play }],
  [", .", "previous, next frame", { ",": () => stepFrame(-1), ".": () => stepFrame(1) }],
  ["X", "play two seconds across the cut before this shot", { x: playAcross }],
  ["F", "make the video larger, or small again", { f: toggleLarger }],
  ["Ctrl Z", "undo; with Shift redo", {}],
  ["Ctrl S", `${version === null ? "download" : "save"} ${data.save_as}`, {}],
  ["?", "show these keys", { "?": showHelp }],
];
const MARK_KEYS = Array.from({ length: SHOTS_PER_LOOK - 1 }, (_, i) => String(i + 1));
const REVIEW_KEYS = [
  [MARK_KEYS.join(" "), "a scene ends between two shots, or does not", Object.fromEntries(MARK_KEYS.map((key) => [key, () => toggleMark(Number(key))]))],
  ["Enter", "accept these marks, and show the next question", { Enter: confirmLook }],
  ["← →", "previous, next shot", { ArrowLeft: () => select(selected - 1, { scrolls: false }), ArrowRight: () => select(selected + 1, { scrolls: false }) }],
  ["R Esc", "end the review", { r: endReview, Escape: endReview }],
  ...COMMON_KEYS,
];
const LIST_KEYS = [
  ["← →", "previous, next shot", { ArrowLeft: () => select(selected - 1), ArrowRight: () => select(selected + 1) }],
  ["P N ↑ ↓", "previous, next scene", { p: () => moveScene(-1), n: () => moveScene(1), ArrowUp: () => moveScene(-1), ArrowDown: () => moveScene(1) }],
  ["Home End", "first, last shot", { Home: () => select(0), End: () => select(last) }],
  ["Enter", "go to this shot in the video", { Enter: () => select(selected) }],
  ["S", "split: begin a new scene at this shot", { s: withScene(() => split(selected)) }],
  ["C", "cut: begin a new scene at the current frame", { c: cutHere }],
  ["M", "merge this scene with the next; with Shift with the previous", { m: withScene((scene) => mergeWithPrevious(scenes[scene.index + 1])), M: withScene(mergeWithPrevious) }],
  ["[ ]", "move the start of this scene a shot earlier, later", { "[": withScene((scene) => moveStart(scene, scene.start_shot - 1)), "]": withScene((scene) => moveStart(scene, scene.start_shot + 1)) }],
  ["R", "review: check the cuts the model is least sure of", { r: startReview }],
  ["V", "mark this scene as reviewed, or not", { v: withScene(toggleReviewed) }],
  ["E", "edit the name of this scene", { e: withScene(editName) }],
  ["+ − 0", "zoom the timeline in, out, to the whole video", { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => look(beginning, duration) }],
  ...COMMON_KEYS,
];
const [REVIEW_ACTIONS, LIST_ACTIONS] = [REVIEW_KEYS, LIST_KEYS].map((rows) => Object.assign({}, ...rows.map((row) => row[2])));

/** Buttons of the page that do the same as keys. */
const BUTTONS = {
  undo, redo, save, play, cut: cutHere, across: playAcross, larger: toggleLarger, keys: showHelp, "frame-back": LIST_ACTIONS[","], "frame-on": LIST_ACTIONS["."],
  "start-review": startReview, "review-confirm": confirmLook, "review-end": endReview,
  "zoom-in": LIST_ACTIONS["+"], "zoom-out": LIST_ACTIONS["-"], "zoom-fit": LIST_ACTIONS[0],
};
for (const [id, action] of Object.entries(BUTTONS)) byId(id).addEventListener("click", () => action());

// Space controls the video even if a click focused a button. :focus-visible cannot tell: a key press sets it.
let tabbed = false;
addEventListener("keydown", (event) => { tabbed ||= event.key === "Tab"; }, true);
addEventListener("pointerdown", () => { tabbed = false; }, true);

/** Whether a control uses a key: fields use all, sliders arrows, and controls reached by Tab Space and Enter. */
function needs(control, key) {
  if (control.closest("input:not([type=range], [type=checkbox])")) return true;
  if (control.matches("input[type=range]") && /^(Arrow|Home|End)/.test(key)) return true;
  if (control === video && key === " ") return true; // browsers play and pause with it
  return tabbed && (key === " " || key === "Enter") && control.matches("button:not(.frame, .boundary), input, summary, a");
}

document.addEventListener("keydown", (event) => {
  if (event.isComposing) return; // of an input method
  if (event.altKey && !"[]".includes(event.key)) return; // many keyboards have brackets with AltGr or Option
  if ((event.ctrlKey || event.metaKey) && !event.altKey) {
    const action = { z: event.shiftKey ? redo : undo, y: redo, s: save }[event.key.toLowerCase()];
    if (!action) return;
    event.preventDefault();
    action();
    return;
  }
  // What is open above the page has the keys, and the browser closes it at Esc. The focus may stay in it for a moment.
  if (document.querySelector("dialog[open], :popover-open")) return;
  const typed = event.shiftKey ? event.key : event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const actions = reviewing ? REVIEW_ACTIONS : LIST_ACTIONS;
  const key = Object.hasOwn(actions, typed) ? typed : typed.toLowerCase();
  if ((key === "Enter" || key === "Escape") && event.target.matches("input")) event.target.blur();
  if (!Object.hasOwn(actions, key) || needs(event.target, key)) return;
  event.preventDefault();
  actions[key]();
});

// --- the page --------------------------------------------------------------------------------------------------------

function show() {
  const at = shots[selected]?.start_frame ?? 0;
  shots = pinShots(cutShots(data.file.shots, state.cuts), state.pins);
  scores = shots.map((shot) => shot.score);
  shotEnds = shots.map((shot) => shot.end);
  endFrames = shots.map((shot) => shot.end_frame);
  last = shots.length - 1;
  selected = shotOf(at);
  makeTiles();
  scenes = groupShots(shots, state.scenes);
  ends = endsOf(state.scenes);
  named = nameScenes(scenes, state.names);
  for (const [index, { text }] of named) scenes[index].name = text;
  for (const { name, named_by, start_frame, end_frame } of automatic) {
    const [first, end] = [shotOf(start_frame), shotOf(end_frame - 1) + 1];
    const changed = (one) => Math.abs(one.start_shot - first) + Math.abs(one.end_shot - end);
    const same = scenes.filter((one) => one.start_shot < end && one.end_shot > first && 2 * changed(one) <= end - first);
    if (same.length === 1 && !same[0].name) Object.assign(same[0], { name, named_by });
  }
  showList();
  mark();
  showPanels();
  showReview();
  draw();
}

if (data.images) document.documentElement.style.setProperty("--aspect", `${data.images.width} / ${data.images.height}`);
else list.classList.add("plain");
for (const id of ["grouping", "list-tools", "player", "timeline"]) byId(id).hidden = false;
show();
setUpPanels();
setUpVideo();
setUpTimeline();
// Chromium may give a page that is a file an empty storage, which keeps nothing; less often after its first frame.
requestAnimationFrame(() => {
  restore();
  if (history.state?.id === data.id) select(shotOf(history.state.frame));
  if (location.hash === "#review") startReview();
});
