// --- the video ---------------------------------------------------------------------------------------------------------

const video = byId("video");
/** The time of the frame that the browser reported last, in seconds. */
let videoTime = 0;
/** When that frame was shown, and when the last seek began: a frame is reported a moment after it is shown. */
let [shownAt, soughtAt] = [-1, 0];
/** The time of the video's first frame on the player's clock, which may begin with the sound. */
let origin = data.video.first;
const playerTime = () => video.currentTime - origin;
/** When to pause; before, the selection stays. */
let until = Infinity;
/** Whether the list scrolls with the video: until the user scrolls it. */
let follows = true;

/** Show the video; or a note why it cannot be played. */
function note(text) {
  byId("video-note").textContent = text;
  byId("video-note").hidden = !text;
  video.hidden = byId("transport").hidden = text !== "";
}

/** Say that the browser cannot show the video. A served page then shows a copy that the server makes. */
async function showInstead() {
  const cannot = `This browser cannot show ${data.video.name}`;
  if (version === null || video.src.endsWith("/proxy")) {
    note(`${cannot}${version === null ? ", or it is not there. bassl review makes a copy that it can show." : ", nor a copy of it."}`);
    return;
  }
  for (let answer = {}; !answer.ready;) {
    answer = await ask("POST", "proxy");
    if (answer.status !== 200) {
      note(`${cannot}: ${answer.error}`);
      return;
    }
    note(`${cannot}. Making a copy that it can show: ${Math.floor(100 * answer.done)} %`);
    if (!answer.ready) await new Promise((resolve) => { setTimeout(resolve, 500); });
  }
  origin = 0;
  video.hidden = false;
  video.addEventListener("loadeddata", () => seek(shots[selected].start_frame), { once: true });
  video.src = "proxy";
}

/** The frame at a time. Timestamps are rounded, so a time may be slightly before its frame. */
function frameAt(time) {
  const shot = shots[shotAt(time + 1e-3)];
  const frame = shot.start_frame + Math.floor((time - shot.start) / frameLength(shot) + 0.1);
  return Math.min(Math.max(frame, shot.start_frame), shot.end_frame - 1);
}

/** The middle of a frame on the player's clock: rounding could move its start into the frame before. */
function timeOf(frame) {
  const shot = shots[shotOf(frame)];
  return origin + shot.start + (frame - shot.start_frame + 0.5) * frameLength(shot);
}

function seek(frame) {
  until = Infinity;
  if (!video.hidden) video.currentTime = timeOf(frame);
}

/** The current frame, or the target of a seek. */
const currentFrame = () => frameAt(video.paused ? playerTime() : videoTime);

function stepFrame(by) {
  video.pause();
  seek(Math.min(Math.max(currentFrame() + by, shots[0].start_frame), shots[last].end_frame - 1));
}

function play() {
  if (video.hidden) return;
  follows = true;
  if (video.paused) video.play().catch(() => {}); // a pause before the first frame rejects it, which is no error
  else video.pause();
}

/** Play from a second before the cut at the beginning of the selected shot to a second after it. */
function playAcross() {
  if (video.hidden) return;
  const { start } = shots[selected];
  until = start + 1;
  video.currentTime = origin + Math.max(start - 1, beginning);
  video.play().catch(() => {});
}

/** Make the video fill half of the page, or small again. */
function toggleLarger() {
  const isLarge = document.body.classList.toggle("large");
  byId("larger").setAttribute("aria-pressed", isLarge);
  video.controls = isLarge; // on a small picture they would cover a third of it
  scrollToShot();
}

/** A second player, which is not seen, from which the frames at a cut are drawn. */
const beside = make("video");
let drawing = Promise.resolve();
let drawnCut = -1;

/** Bring another frame to the second player, and wait until it can be drawn: in Chromium, `seeked` comes earlier. */
const besideAfter = (action) => new Promise((resolve) => {
  beside.requestVideoFrameCallback(resolve);
  beside.onloadeddata = beside.onseeked = () => setTimeout(resolve, 500); // it may be the frame that was there
  beside.onerror = resolve;
  action();
});

/** Draw the last frame before the selected shot and its first frame, unless another shot is selected meanwhile. */
function showAtCut() {
  const first = shots[selected].start_frame;
  drawnCut = first;
  byId("at-cut").hidden = video.hidden || selected === 0 || oneColumn.matches;
  if (byId("at-cut").hidden) return;
  drawing = drawing.then(async () => {
    if (beside.src !== video.src) await besideAfter(() => { beside.src = video.src; });
    for (const [i, canvas] of [...byId("at-cut").children].entries()) {
      if (drawnCut !== first || beside.error) return;
      await besideAfter(() => { beside.currentTime = timeOf(first - 1 + i); });
      [canvas.width, canvas.height] = [beside.videoWidth, beside.videoHeight];
      canvas.getContext("2d").drawImage(beside, 0, 0);
    }
  });
}

/** Whether only a part of the video was read, and a time is outside it. */
const isOutside = (time) => time < beginning - 1e-3 || (typeof settings.end === "number" && time > ending);

function cutHere() {
  if (video.hidden) return;
  if (isOutside(playerTime()) || !sceneOf(shotOf(currentFrame()))) {
    tell("This frame is in no scene.");
    return;
  }
  // A frame may be long, and the player anywhere within it; if the rate varies, its number is an estimate.
  const shown = shownAt >= soughtAt && !video.seeking ? videoTime : null;
  const index = shown === null ? shotOf(currentFrame()) : shotAt(shown + 1e-3);
  const shot = shots[index];
  const frame = shown === null ? currentFrame() : Math.max(frameAt(shown), shot.start_frame + 1);
  const time = shown ?? shot.start + (frame - shot.start_frame) * frameLength(shot);
  if (time < shot.start + 2e-3 || frame >= shot.end_frame) {
    split(index);
    return;
  }
  const still = document.createElement("canvas");
  [still.width, still.height] = [data.images?.width ?? 320, data.images?.height ?? 180];
  still.getContext("2d").drawImage(video, 0, 0, still.width, still.height);
  cut(frame, Math.min(Math.max(time, shot.start + 1e-3), shot.end - 1e-3));
  tiles[index + 1].image.replaceWith(still);
  select(index + 1, { seeks: false });
}

function showPlaying(time) {
  if (time >= until && !video.seeking) video.pause();
  videoTime = Math.min(Math.max(time, beginning), ending);
  const frame = frameAt(videoTime);
  const shot = shotOf(frame);
  if (shot !== playing) {
    playing = shot;
    if (!video.paused && shot !== selected && until === Infinity) select(shot, { seeks: false, scrolls: follows });
  }
  byId("at").textContent = isOutside(time) ? `${timecode(time)} · not read` : `${timecode(videoTime)} · frame ${frame}`;
  if (!video.paused && (videoTime < view.from || videoTime > view.from + view.span)) look(videoTime - view.span / 20, view.span);
  draw();
}

function setUpVideo() {
  // The browser reports frames, so that times are exact to the frame even if the rate varies.
  const shown = (now, { mediaTime, presentationTime }) => {
    shownAt = presentationTime;
    showPlaying(mediaTime - origin);
    video.requestVideoFrameCallback(shown);
  };
  video.requestVideoFrameCallback(shown);
  video.addEventListener("seeking", ({ timeStamp }) => { soughtAt = timeStamp; });
  for (const kind of ["wheel", "touchmove"]) list.addEventListener(kind, () => { follows = false; }, { passive: true });
  video.addEventListener("loadedmetadata", () => {
    if (!video.videoWidth) { // only the sound can be decoded
      showInstead();
      return;
    }
    note("");
    if (video.currentTime < beginning) seek(shots[selected].start_frame);
  });
  video.addEventListener("error", showInstead);
  video.addEventListener("click", () => { if (!video.controls) play(); });
  video.addEventListener("play", () => { byId("play").textContent = "❚❚"; });
  video.addEventListener("pause", () => {
    until = Infinity;
    byId("play").textContent = "▶";
    showAtCut();
  });
  // Most videos begin with black.
  if (data.images) video.poster = imageOf(shots[shotAt(beginning + duration / 3)]);
  if (data.video.source !== null) video.src = data.video.source;
  else note(`${data.video.name} was not found when this page was made.`);
}
