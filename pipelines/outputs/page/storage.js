// --- what the browser keeps ---------------------------------------------------------------------------------------------

// Unsaved changes stay in the browser, for this content of the file: one entry per window, which a reload keeps. A window
// writes and removes only its own entry, and only while the entry is as the window left it. `base`: the version of the file
// that a served page's changes are of. `after` says whose changes
// this window has taken over or refused: the keys of other entries, with the times of these changes.
const ENTRIES = `bassl ${data.id}`;
let ownKey = "";
let ownText = null;
let after = {};

/** Take the key of this tab before a reload, or a new one. */
function takeKey(isNew = false) {
  ownKey = `${ENTRIES} ${crypto.getRandomValues(new Uint32Array(2)).join("-")}`;
  ownText = null;
  try {
    if (!isNew) ownKey = sessionStorage.getItem(ENTRIES) ?? ownKey;
    ownText = localStorage.getItem(ownKey);
    sessionStorage.setItem(ENTRIES, ownKey);
  } catch {
    // Without storage; the first change says so.
  }
}

/** Write the state to this window's entry. */
function keep() {
  try {
    // A copy of this tab has its key.
    if (localStorage.getItem(ownKey) !== ownText) takeKey(true);
    if (state === (version === null ? fromFile : saved) && !Object.keys(after).length) {
      localStorage.removeItem(ownKey);
      ownText = null;
    } else {
      const text = JSON.stringify({ ...state, after, base: version, at: Date.now(), saved: state === saved });
      localStorage.setItem(ownKey, text);
      ownText = text;
    }
    byId("storage-full").hidden = true;
  } catch {
    byId("storage-full").hidden = false;
  }
}

/** The changes in an entry; null if they do not fit the file: other pages may write there, too. */
function changesIn(text) {
  try {
    const entry = JSON.parse(text);
    const { scenes, names, pins = fromFile.pins } = entry;
    const isInside = ([frame]) => data.file.shots.some((shot) => frame > shot.start_frame && frame < shot.end_frame);
    const cuts = entry.cuts.filter((cut) => version === null || isInside(cut)); // others are in the file by now
    const pieces = cutShots(data.file.shots, cuts);
    const edges = new Set(pieces.map((shot) => shot.end_frame));
    edges.add(pieces[0].start_frame);
    const increases = (numbers) => numbers.every((value, i) => i === 0 || value > numbers[i - 1]);
    const fits = scenes.length > 0 && scenes.every((scene) => edges.has(scene.start_frame) && edges.has(scene.end_frame))
      && pins.every(([frame, isEnd, by = "program"]) => edges.has(frame) && typeof isEnd === "boolean" && by === "program")
      && cuts.every(([frame, time]) => Number.isInteger(frame) && typeof time === "number") && pieces.length === data.file.shots.length + cuts.length
      && pieces.every((shot) => shot.end > shot.start)
      && increases(pins.map(([frame]) => frame))
      && names.every(({ text, start_frame, end_frame }) => typeof text === "string" && end_frame > start_frame);
    if (!fits || !["file", "threshold", "hand"].includes(entry.by)) return null;
    const changes = {
      cuts, pins, scenes, names, by: entry.by,
      threshold: number(entry.threshold, 1e-9, 1 - 1e-9, fromFile.threshold),
      minScene: number(entry.minScene, 0, Infinity, fromFile.minScene),
      maxScene: number(entry.maxScene, 0, Infinity, fromFile.maxScene),
      looks: number(entry.looks, 0, Infinity, 0),
    };
    return { changes, at: number(entry.at, 0, 8e15, 0), saved: entry.saved === true, base: entry.base ?? null, after: { ...entry.after } };
  } catch {
    return null;
  }
}

/** The entries of all windows, newest first. */
function entries() {
  try {
    const keys = Object.keys(localStorage).filter((name) => name.startsWith(ENTRIES));
    const all = keys.map((name) => ({ key: name, ...changesIn(localStorage.getItem(name)) }));
    return all.filter((entry) => entry.changes).sort((a, b) => b.at - a.at);
  } catch {
    return [];
  }
}

const isSame = (changes, others) => Object.keys(changes).every((name) => JSON.stringify(changes[name]) === JSON.stringify(others[name]));

/** Changes of other windows that no window has taken over or refused, newest first. */
function othersChanges() {
  const others = entries().filter((entry) => entry.key !== ownKey);
  const refusals = [after, ...others.map((entry) => entry.after)];
  return others.filter((entry) => !refusals.some((times) => times[entry.key] >= entry.at));
}

/** Show the changes in an entry; undo returns to the state before. */
function useEntry(entry) {
  after = entry.key === ownKey ? entry.after : { ...after, [entry.key]: entry.at };
  done.push({ state, action: entry.key === ownKey ? "restored changes" : "changes of another window" });
  undone = [];
  state = entry.changes;
  if (entry.saved && entry.base === version) saved = state;
  show();
}

const SELECTED = `${ENTRIES} selected`;
/** The first frame of the shot that was selected in this tab before a reload; null if there is none. */
function selectedBefore() {
  try {
    const frame = sessionStorage.getItem(SELECTED);
    return frame === null ? null : Number(frame);
  } catch {
    return null;
  }
}

let other = null;
function showOther() {
  const isNews = ({ changes, base, saved: isSaved }) => !isSame(changes, fromFile) && !isSame(changes, state) && !(isSaved && base !== version);
  other = othersChanges().find(isNews) ?? null;
  byId("other-changes").hidden = !other;
  if (!other) return;
  const { changes, at } = other;
  const of = other.base === version ? "Another window changed this page" : "This browser has changes that are not in the file, made";
  byId("other-changes").firstElementChild.textContent = `${of} at ${new Date(at).toLocaleTimeString()}, to ${count(changes.scenes.length, "scene")}. Nothing is lost: each window keeps its own changes.`;
}

/** Show the changes of this tab before a reload, or the last changes of another window. Nothing is written. */
function restore() {
  const own = entries().find((one) => one.key === ownKey);
  if (own && own.base !== version) takeKey(true); // the file changed since: ask, as if another window had made them
  const entry = (own?.key === ownKey && own) || othersChanges().find(({ base }) => base === version);
  // The state of the file, after which other changes no longer count.
  if (entry && isSame(entry.changes, fromFile)) ({ after } = entry);
  else if (entry) {
    useEntry(entry);
    tell(`Restored your changes of ${new Date(entry.at).toLocaleString()}; Undo goes back to the file.`);
  }
  showOther();
}

function setUpStorage() {
  takeKey();
  restore();
  byId("open-other").addEventListener("click", () => {
    useEntry(other);
    keep();
    showOther();
    tell("These are the changes of the other window; Undo returns to yours.");
  });
  byId("keep-own").addEventListener("click", () => {
    after = { ...after, [other.key]: other.at };
    keep();
    showOther();
  });
  addEventListener("storage", (event) => {
    if (!event.key?.startsWith(ENTRIES)) return;
    // A copy of this tab took over the entry.
    if (event.key === ownKey && ownText !== null) keep();
    showOther();
  });
  // A field is applied when it loses the focus, which does not happen when a window is closed.
  const leave = () => {
    applyName();
    try {
      sessionStorage.setItem(SELECTED, shots[selected].start_frame);
    } catch {
      // After a reload the first shot is selected.
    }
  };
  addEventListener("pagehide", leave);
  document.addEventListener("visibilitychange", () => { if (document.hidden) leave(); });
  addEventListener("beforeunload", (event) => {
    applyName();
    if (state !== saved && !byId("storage-full").hidden) event.preventDefault();
  });
}
