// The page shows one state: the scenes, where shots were cut, pins, which are boundaries that a person confirmed or refused
// (all in frames), names, and the settings that determined the scenes. With --drop-short some shots are in no scene. Each
// change makes a new state; undo returns to the one before. Text from files only becomes textContent.
const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const images = byId("images").textContent.split("\n");
const { settings } = data.file;
// Of the video, or the part of it that was read, in seconds.
const beginning = data.file.shots[0].start;
const ending = data.file.shots.at(-1).end;
const duration = ending - beginning;
/** Scenes with automatic names, which stay as `carried_names` of scene_names.py keeps them. */
const automatic = data.file.scenes.filter((scene) => scene.named_by);
/** All subtitles, by their start. */
const lines = [...data.file.scenes.flatMap((scene) => scene.lines ?? []), ...(data.file.lines ?? [])].sort((a, b) => a.start - b.start);
/** The subtitles that begin in a scene or shot. */
const linesOf = ({ start, end }) => lines.filter((line) => line.start >= start && line.start < end);

const number = (value, low, high, otherwise) =>
  typeof value === "number" && value >= low && value <= high ? value : otherwise;
const range = ({ start_frame, end_frame }) => ({ start_frame, end_frame });
const fromFile = {
  cuts: [],
  pins: data.file.shots.filter((shot) => "pinned" in shot).map((shot) => [shot.end_frame, shot.pinned, ...(shot.pinned_by ? [shot.pinned_by] : [])]),
  scenes: data.file.scenes.map(range),
  names: data.file.scenes.filter((scene) => scene.name && !scene.named_by).map((scene) => ({ text: scene.name, ...range(scene) })),
  threshold: number(settings.threshold, 1e-9, 1 - 1e-9, 0.5),
  minScene: number(settings.min_scene, 0, Infinity, 0),
  maxScene: number(settings.max_scene, 0, Infinity, 0), // 0: no limit
  looks: 0,
  by: "file",
};
let state = fromFile;
/** The version of the file that a served page read or wrote last; null in a page that is a file. */
let { version } = data;
let saved = state;
let undone = [];
let done = [];
let sliding = false;
// Derived from the state:
let shots = [];
let scores = [];
let shotEnds = [];
let endFrames = [];
let last = 0;
let scenes = [];
/** The frames where scenes begin or end, but for the first shot's. */
let ends = new Set();
let named = new Map();
let selected = 0;
let playing = -1;

// --- numbers for people -----------------------------------------------------------------------------------------------

const count = (n, thing) => `${n.toLocaleString("en")} ${thing}${n === 1 ? "" : "s"}`;
const seconds = (value) => {
  const whole = Math.round(value);
  return value < 59.95 ? `${value.toFixed(1)} s` : `${Math.floor(whole / 60)} min ${whole % 60} s`;
};
const textOf = (lines) => lines.map((line) => line.text).join(" ");
const titleOf = (scene) => (scene ? scene.name || `Scene ${scene.index + 1}` : "In no scene");
const sceneOf = (shot) => scenes.find((scene) => scene.start_shot <= shot && shot < scene.end_shot);
const shotAt = (time) => Math.min(countUpTo(shotEnds, time), last);
const shotOf = (frame) => Math.min(countUpTo(endFrames, frame), last);
const frameLength = (shot) => (shot.end - shot.start) / (shot.end_frame - shot.start_frame);
/** Whether a person or a program decided on the boundary after a shot; false for -1. */
const isPinned = (shot) => shots[shot]?.pinned !== undefined;

/** An element with texts or other elements in it. */
function make(kind, ...content) {
  const element = document.createElement(kind);
  element.append(...content);
  return element;
}

let fading = 0;
function tell(text) {
  byId("status").textContent = text;
  clearTimeout(fading);
  fading = setTimeout(() => { byId("status").textContent = ""; }, 6000);
}

// --- changes, undo, redo ----------------------------------------------------------------------------------------------

/** Show another state, and say something about it. */
function become(next, told) {
  state = next;
  show();
  keep();
  if (told) tell(told);
}

/** Change the state. Undo names the `action` that led to it; changes that slide are one. */
function change(next, action, told = "", slides = false) {
  if (slides && sliding) done.at(-1).action = action;
  else done.push({ state, action });
  sliding = slides;
  undone = [];
  become(next, told);
}

function step(from, to, word) {
  if (!from.length) return;
  const { state: next, action } = from.pop();
  to.push({ state, action });
  sliding = false;
  become(next, `${word}: ${action}.`);
}
const undo = () => step(done, undone, "Undone");
const redo = () => step(undone, done, "Redone");

/** The cuts that credits decide, as credit_cuts in pipelines/scenes.py. */
const creditsOfVideo = () => new Map(data.credit_cuts.map(([frame, isEnd]) => [shotOf(frame - 1), isEnd]));

/** The scenes by threshold and lengths, with boundaries as pinned; null if no scene is long enough. */
function scenesBy({ threshold, minScene, maxScene, pins }) {
  const lengths = shotEnds.map((end) => end - shots[0].start);
  const least = settings.drop_short ? 0 : minScene;
  const decided = new Map(pins);
  const credits = creditsOfVideo();
  const pinned = endFrames.map((frame, shot) => decided.get(frame) ?? credits.get(shot) ?? undefined);
  const lastShots = chooseSceneEnds(scores, lengths, threshold, least, maxScene || Infinity, pinned);
  const groups = lastShots.map((shot, i) => ({ first: shots[i ? lastShots[i - 1] + 1 : 0], end: shots[shot] }));
  const long = settings.drop_short ? groups.filter(({ first, end }) => end.end - first.start >= minScene - 1e-9) : groups;
  return long.length ? long.map(({ first, end }) => ({ start_frame: first.start_frame, end_frame: end.end_frame })) : null;
}

/** Group shots again, with changes of threshold, minScene and maxScene. */
function regroup(changes) {
  const next = { ...state, ...changes, by: "threshold" };
  const { threshold, minScene, maxScene } = next;
  if (maxScene && minScene > maxScene) {
    tell("The shortest scene cannot be longer than the longest."); // perhaps only while a number is typed
    return;
  }
  next.scenes = scenesBy(next);
  if (!next.scenes) {
    tell(`No scene is ${minScene} seconds or longer.`);
    showPanels();
    return;
  }
  const action = {
    threshold: `threshold ${Number(threshold.toFixed(3))}`,
    minScene: `no scene shorter than ${minScene} s`,
    maxScene: maxScene ? `no scene longer than ${maxScene} s` : "no longest scene",
  }[Object.keys(changes)[0]];
  change(next, action, "", true);
}

/** Whether the scenes are by threshold and pins alone: not by a fixed number, nor corrected in another way. */
const followsThreshold = () => state.by === "threshold" || !(typeof settings.scenes === "number" || settings.edited_by_hand);

/** The frames where these scenes begin or end. */
const endsOf = (ranges) => {
  const frames = ranges.flatMap(({ start_frame, end_frame }) => [start_frame, end_frame]);
  return new Set(frames.filter((frame) => frame > data.file.shots[0].start_frame));
};

/** A change of boundaries by hand, which pins them: no threshold moves them any more. */
function changeByHand(next, action, told, slides = false) {
  const before = slides && sliding ? done.at(-1).state : state;
  const [old, now] = [endsOf(before.scenes), endsOf(next.scenes)];
  const moved = [...old, ...now].filter((frame) => old.has(frame) !== now.has(frame));
  const pins = withPins(before.pins, moved.map((frame) => [frame, now.has(frame)]));
  change({ ...next, pins, by: "hand" }, action, told, slides);
}

/** Pins with others added, which replace earlier ones. */
const withPins = (pins, others) => [...new Map([...pins, ...others].map((pin) => [pin[0], pin])).values()].sort((a, b) => a[0] - b[0]);

/** Scenes of which one ends at a frame inside it, and another one begins. */
const splitAt = (ranges, frame) => ranges.flatMap((scene) => (scene.start_frame < frame && frame < scene.end_frame
  ? [{ ...scene, end_frame: frame }, { ...scene, start_frame: frame }] : [scene]));
/** Scenes of which one is merged with the one before it, and with shots in no scene between them. */
const joinAt = (ranges, i) => ranges.toSpliced(i - 1, 2, { ...ranges[i - 1], end_frame: ranges[i].end_frame });

function split(shot) {
  const { start_frame } = shots[shot];
  const next = splitAt(state.scenes, start_frame);
  if (next.length === scenes.length) return;
  changeByHand({ ...state, scenes: next }, `new scene from shot ${shot + 1}`, `A new scene begins with shot ${shot + 1}.`);
  select(shot, { seeks: false });
}

/** Begin a new scene at a frame inside a shot, and its time in seconds. */
function cut(frame, time) {
  const cuts = [...state.cuts, [frame, time]].sort((a, b) => a[0] - b[0]);
  changeByHand({ ...state, cuts, scenes: splitAt(state.scenes, frame) }, `new scene from frame ${frame}`, `A new scene begins with frame ${frame}.`);
}

function mergeWithPrevious(scene) {
  if (!scene?.index) return;
  const both = `scenes ${scene.index} and ${scene.index + 1}`;
  const automaticNames = [scenes[scene.index - 1], scene].filter((one) => one.named_by).map((one) => one.name);
  changeByHand({ ...state, scenes: joinAt(state.scenes, scene.index) }, `merge ${both}`, `Merged ${both}.`);
  select(scene.start_shot, { seeks: false });
  const lost = automaticNames.filter((name) => name !== scenes[scene.index - 1].name);
  if (lost.length) tell(`Merged ${both}. Automatic names that no longer fit: ${lost.join(", ")}.`);
}

/** Move the start of a scene to another shot, which is selected, and the end of the scene before if that is where it was,
 * or beyond. */
function moveStart(scene, shot, slides = false) {
  const before = scenes[scene.index - 1];
  if (!before && scene.start_shot === 0) return false;
  const to = Math.min(Math.max(shot, before ? before.start_shot + 1 : 0), scene.end_shot - 1);
  if (to === scene.start_shot) return false;
  const { start_frame } = shots[to];
  const next = state.scenes.with(scene.index, { start_frame, end_frame: scene.end_frame });
  if (before && (before.end_shot === scene.start_shot || before.end_shot > to)) next[before.index] = { start_frame: before.start_frame, end_frame: start_frame };
  changeByHand({ ...state, scenes: next }, `start of scene ${scene.index + 1}`, `Scene ${scene.index + 1} begins with shot ${to + 1}.`, slides);
  select(scenes[scene.index].start_shot);
  return true;
}

/** The shots at whose ends a scene meets its neighbors, and its shots each other. */
const boundariesOf = (scene) => shots.slice(Math.max(scene.start_shot - 1, 0), Math.min(scene.end_shot, last));
/** Whether a person decided on every boundary of a scene. */
const isReviewed = (scene) => boundariesOf(scene).every((shot) => isPinned(shot.index));

/** Mark a scene as reviewed, which pins its boundaries as they are; or remove the mark, and what no other mark needs. */
function toggleReviewed(scene) {
  const boundaries = boundariesOf(scene);
  if (isReviewed(scene)) {
    const others = new Set(scenes.filter((other) => other !== scene && isReviewed(other)).flatMap(boundariesOf));
    const own = boundaries.filter((shot) => !others.has(shot));
    const removed = new Set((own.length ? own : boundaries).map((shot) => shot.end_frame));
    change({ ...state, pins: state.pins.filter(([frame]) => !removed.has(frame)) }, `scene ${scene.index + 1} not reviewed`);
  } else {
    change({ ...state, pins: withPins(state.pins, boundaries.map(({ end_frame }) => [end_frame, ends.has(end_frame)])) }, `scene ${scene.index + 1} reviewed`);
  }
}

function rename(scene, text) {
  const clean = oneLine(text);
  const before = named.get(scene.index);
  if (clean === oneLine(scene.name ?? "") || (!clean && !before)) return;
  // A scene whose name was removed must not get the name of a scene that was merged into it.
  const others = state.names.filter((name) => name !== before && (clean || nameScenes(scenes, [name]).keys().next().value !== scene.index));
  const names = clean ? [...others, { text: clean, ...range(scene) }] : others;
  change({ ...state, names }, `name of scene ${scene.index + 1}`);
}
