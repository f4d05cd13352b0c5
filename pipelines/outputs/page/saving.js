// --- saving -----------------------------------------------------------------------------------------------------------

function content() {
  const { threshold, minScene, maxScene } = state;
  const changed = { ...settings };
  if (state.by !== "file") {
    Object.assign(changed, { threshold, min_scene: minScene, max_scene: maxScene, scenes: null });
    // Most corrections are pins, and regroup keeps these; others must not be replaced.
    if (JSON.stringify(scenesBy(state)) === JSON.stringify(state.scenes)) delete changed.edited_by_hand;
    else changed.edited_by_hand = true;
  }
  const { lines: _, ...others } = data.file;
  const inScenes = scenes.map(linesOf);
  const spoken = new Set(inScenes.flat());
  const unspoken = lines.filter((line) => !spoken.has(line));
  return {
    ...others, settings: changed, shots, ...(unspoken.length && { lines: unspoken }),
    scenes: scenes.map((scene, i) => ({ ...scene, ...(inScenes[i].length && { lines: inScenes[i] }) })),
  };
}

function download() {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${JSON.stringify(content(), null, 1)}\n`], { type: "application/json" }));
  link.download = data.save_as;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60000);
}

/** Say what became of a file until the next time, with these of the note's buttons. */
function noteSaving(text, ...buttons) {
  byId("save-note").hidden = !text;
  byId("save-note").firstElementChild.textContent = text;
  for (const button of byId("save-note").querySelectorAll("button")) button.hidden = !buttons.includes(button.id);
}

function setSaved(now) {
  saved = now;
  show();
  keep(version !== null && state === saved);
}

/** Save a page that is a file, which can only be downloaded. */
function saveByDownload() {
  download();
  noteSaving(`${data.save_as} is in the folder of your browser's downloads. Move it to the folder of the old one, which it replaces. bassl review saves there directly.`);
  setSaved(state);
}

/** What the server of `bassl review` answers, with its status; 0 if it has ended. */
async function ask(method, path, body, headers = { "If-Match": version }) {
  try {
    const response = await fetch(path, { method, body, headers });
    return { status: response.status, ...await response.json() };
  } catch {
    return { status: 0, error: "bassl review has ended. This browser keeps your changes: run it again, and the page that it opens has them" };
  }
}

/** The version of the file that another program or window wrote. */
let otherVersion = null;

/** Say why something was not done, and offer what a person can do about it. */
function complain(answer) {
  const { status, error } = answer;
  otherVersion = answer.version ?? version;
  const kept = answer.fit ? "Nothing is lost: this browser keeps your changes." : "Its shots are others, so that your changes do not fit it: download yours before you show it.";
  if (answer.version) noteSaving(`${data.save_as} was changed by another program or window since this page read it. ${kept}`, "show-file", "replace-file", "download-copy");
  else noteSaving(`Not done: ${error}.`, "download-copy");
  return false;
}

/** Save a page that is served, in place; unless the file is not the one that this page read or wrote. */
async function saveInPlace() {
  const now = state;
  const answer = await ask("PUT", "result", JSON.stringify(content()));
  if (answer.status !== 200) return complain(answer);
  ({ version } = answer);
  noteSaving("");
  setSaved(now);
  tell(`Saved ${data.save_as}.`);
  return true;
}

let saving = Promise.resolve(true);
/** Save, after what is being saved. */
function save() {
  applyName();
  saving = saving.then(() => (version === null ? saveByDownload() : saveInPlace())).catch(({ message }) => complain({ error: message }));
  return saving;
}

async function exportAs(format) {
  if (state !== saved && !await save()) return;
  byId("exported").textContent = "";
  const answer = await ask("POST", "export", format);
  if (answer.status !== 200) complain(answer);
  else byId("exported").textContent = [`Wrote ${answer.files.join(", ")}.`, ...answer.warnings].join(" ");
}

/** End the review of this video, and go to the next one, or to the one before (`step` -1). */
async function finish(step = 1) {
  if (state !== saved && (offer || !isKept)) {
    tell("Save first: this browser does not keep your changes.");
    return;
  }
  const answer = await ask("POST", "done", String(step));
  if (answer.status !== 200) {
    complain(answer);
    return;
  }
  let status = step < 0 || data.next ? 503 : 0;
  while (status === 503) { // the server waits for some seconds, as the video may have to be read first
    tell(step < 0 ? "Opening the video before …" : `Opening ${data.next} …`);
    ({ status } = await fetch("", { method: "HEAD" }).catch(() => ({ status: 0 })));
  }
  if (status === 0 || status === 410) byId("finished").showModal();
  else {
    location.hash = "review";
    location.reload();
  }
}

byId("show-file").addEventListener("click", () => location.reload());
byId("replace-file").addEventListener("click", () => {
  version = otherVersion;
  save();
});
byId("download-copy").addEventListener("click", download);
byId("done")?.addEventListener("click", async () => { if (state === saved || await save()) finish(); });
byId("skip")?.addEventListener("click", () => finish());
byId("previous")?.addEventListener("click", () => finish(-1));
byId("export-menu")?.addEventListener("click", (event) => {
  const button = event.target.closest("[data-format]");
  if (button) exportAs(button.dataset.format);
});
