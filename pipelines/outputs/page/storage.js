// --- what the browser keeps ---------------------------------------------------------------------------------------------

// Unsaved changes stay in the browser: one draft for each page, which all windows with the page write and follow. `base`:
// the version of the file that a served page's changes are of.
const DRAFT = `bassl ${data.id}`;
/** Whether the draft is what this window shows. */
let isKept = true;
/** Changes of another version of the file, until they are answered. */
let offer = null;

/** Write the draft; or remove it, as the file has the state. */
function keep(isInFile = false) {
  try {
    if (isInFile) localStorage.removeItem(DRAFT);
    else localStorage.setItem(DRAFT, JSON.stringify({ changes: state, base: version, at: Date.now(), isSaved: state === saved }));
    showKept(true);
  } catch {
    showKept(false);
  }
}

function showKept(now) {
  isKept = now;
  byId("not-kept").hidden = isKept;
}

/** The draft; null if there is none, or it does not fit the shots of the file. */
function readDraft() {
  try {
    const draft = JSON.parse(localStorage.getItem(DRAFT));
    const { changes } = draft;
    const isInside = ([frame]) => data.file.shots.some((shot) => frame > shot.start_frame && frame < shot.end_frame);
    if (version !== null) changes.cuts = changes.cuts.filter(isInside); // others are in the file by now
    const edges = new Set(cutShots(data.file.shots, changes.cuts).flatMap((shot) => [shot.start_frame, shot.end_frame]));
    const frames = [...changes.scenes.flatMap((scene) => [scene.start_frame, scene.end_frame]), ...changes.pins.map(([frame]) => frame)];
    const fits = changes.scenes.length && changes.cuts.every(isInside) && frames.every((frame) => edges.has(frame));
    return fits ? draft : null;
  } catch {
    return null;
  }
}

/** Show the changes of a draft; undo returns to what was shown before. */
function useDraft({ changes, base, isSaved }, action, told) {
  done.push({ state, action });
  undone = [];
  sliding = false;
  state = changes;
  if (isSaved && base === version) saved = state;
  show();
  tell(told);
}

const SAVED_PARTS = ["scenes", "pins", "names", "threshold", "minScene", "maxScene"];
const isShown = ({ changes }) => SAVED_PARTS.every((part) => JSON.stringify(changes[part]) === JSON.stringify(state[part]));

/** Show the draft of this version of the file, and offer one of another version. Nothing is written. */
function restore() {
  const draft = readDraft();
  if (!draft || isShown(draft)) return;
  const when = new Date(draft.at).toLocaleString();
  if (draft.base === version) {
    useDraft(draft, "restored changes", `Restored your changes of ${when}; Undo goes back to the file.`);
    return;
  }
  offer = draft;
  byId("offer").firstElementChild.textContent = `This browser has changes that are not in the file, made ${when}, to ${count(draft.changes.scenes.length, "scene")}.`;
  byId("offer").hidden = false;
}

function answerOffer(isWanted) {
  byId("offer").hidden = true;
  if (isWanted) useDraft(offer, "your changes", "These are your changes; Undo goes back to the file.");
  offer = null;
  keep(state === saved);
}

/** Follow a change of another window. If it shows another version of the file, its changes replace only the draft. */
function follow({ key, newValue }) {
  if (key !== DRAFT) return;
  const draft = readDraft();
  if (newValue === null) keep(state === saved); // it has saved its changes
  else if (draft?.base !== version) showKept(state === saved);
  else if (!isShown(draft)) useDraft(draft, "changes of another window", "Another window changed this page; Undo returns to yours.");
}

byId("use-offer").addEventListener("click", () => answerOffer(true));
byId("refuse-offer").addEventListener("click", () => answerOffer(false));
addEventListener("storage", follow);
// A field is applied when it loses the focus, which does not happen when a window is closed.
addEventListener("pagehide", () => applyName());
document.addEventListener("visibilitychange", () => { if (document.hidden) applyName(); });
addEventListener("beforeunload", (event) => {
  applyName();
  history.replaceState({ id: data.id, frame: shots[selected].start_frame }, ""); // for a reload
  if (state !== saved && (offer || !isKept)) event.preventDefault();
});
