// --- the film ---------------------------------------------------------------------------------------------------------

const film = byId("film");
/** The time of the frame that is shown, in seconds. */
let filmTime = 0;
/** The time of the film's first frame on the player's clock, which may begin with the sound. */
const origin = data.film.first;
const playerTime = () => film.currentTime - origin;
/** How fast the film is shuttled; negative backwards, 0 when nobody does. */
let speed = 0;
/** Whether the list scrolls with the film: until someone scrolls it elsewhere. */
let follows = true;

function note(text, offers) {
  byId("film-note").textContent = text;
  byId("film-note").hidden = !text;
  byId("film-pick").hidden = !offers;
  byId("transport").hidden = offers;
}

/** The frame at a time; timestamps are rounded, so that one may lie a little before its frame. */
function frameAt(time) {
  const shot = shots[shotAt(time + 1e-3)];
  const frame = shot.start_frame + Math.floor((time - shot.start) / frameLength(shot) + 0.1);
  return Math.min(Math.max(frame, shot.start_frame), shot.end_frame - 1);
}

function seek(frame) {
  if (film.hidden) return;
  const shot = shots[shotOf(frame)];
  // Into the frame rather than on its edge, which rounding would put into the frame before.
  film.currentTime = origin + shot.start + (frame - shot.start_frame + 0.5) * frameLength(shot);
}

/** The frame that is shown, or after a seek is about to be. */
const currentFrame = () => frameAt(film.paused ? playerTime() : filmTime);

function stepFrame(by) {
  speed = 0;
  film.pause();
  seek(Math.min(Math.max(currentFrame() + by, shots[0].start_frame), shots[last].end_frame - 1));
}

function play() {
  if (film.hidden) return;
  const stands = film.paused && speed >= 0;
  speed = 0;
  film.playbackRate = 1;
  follows = true;
  if (stands) film.play();
  else film.pause();
}

/** Play forwards (1) or backwards (-1), each time twice as fast; browsers play no film backwards, so that seeks. */
function shuttle(direction) {
  if (film.hidden) return;
  const before = speed || (film.paused ? 0 : 1);
  speed = before * direction > 0 ? Math.min(Math.max(2 * before, -8), 8) : direction;
  follows = true;
  if (speed > 0) {
    film.playbackRate = speed;
    film.play();
    return;
  }
  film.pause();
  if (before < 0) return;
  let then = performance.now();
  const back = (now) => {
    if (speed >= 0) return;
    if (!film.seeking) {
      film.currentTime = Math.max(film.currentTime + (speed * (now - then)) / 1000, origin + beginning);
      then = now;
    }
    requestAnimationFrame(back);
  };
  requestAnimationFrame(back);
}

/** Whether a part of the film was read, and a time is outside it. */
const isOutside = (time) => time < beginning - 1e-3 || (typeof settings.end === "number" && time > ending);

function cutHere() {
  if (film.hidden) return;
  if (isOutside(playerTime())) {
    tell("This frame is outside the part of the film that was read.");
    return;
  }
  // A frame may be shown for long, and the player stand anywhere in it; where the rate varies its number is an estimate.
  const shown = exact && !film.seeking ? filmTime : null;
  const index = shown === null ? shotOf(currentFrame()) : shotAt(shown + 1e-3);
  const shot = shots[index];
  const frame = shown === null ? currentFrame() : Math.max(frameAt(shown), shot.start_frame + 1);
  const time = shown ?? shot.start + (frame - shot.start_frame) * frameLength(shot);
  if (time < shot.start + 2e-3 || frame >= shot.end_frame) {
    split(index);
    return;
  }
  const still = document.createElement("canvas");
  [still.width, still.height] = [data.pictures?.width ?? 320, data.pictures?.height ?? 180];
  still.getContext("2d").drawImage(film, 0, 0, still.width, still.height);
  cut(frame, Math.min(Math.max(time, shot.start + 1e-3), shot.end - 1e-3));
  tiles[index + 1].image.replaceWith(still);
  select(index + 1, { seeks: false });
}

// The browser's own count of frames, where it has one, is exact to the frame also where the rate varies.
const exact = "requestVideoFrameCallback" in film;

function showPlaying(time) {
  filmTime = Math.min(Math.max(time, beginning), ending);
  const frame = frameAt(filmTime);
  const shot = shotOf(frame);
  if (shot !== playing) {
    tiles[playing]?.element.classList.remove("now");
    tiles[shot].element.classList.add("now");
    playing = shot;
    if ((!film.paused || speed < 0) && shot !== selected) select(shot, { seeks: false, scrolls: follows });
  }
  byId("at").textContent = isOutside(time) ? `${timecode(time)} · not read` : `${timecode(filmTime)} · frame ${frame}`;
  if (!film.paused && (filmTime < view.from || filmTime > view.from + view.span)) look(filmTime - view.span / 20, view.span);
  draw();
}

function setUpFilm() {
  byId("player").hidden = false;
  if (exact) {
    const shown = (now, { mediaTime }) => {
      showPlaying(mediaTime - origin);
      film.requestVideoFrameCallback(shown);
    };
    film.requestVideoFrameCallback(shown);
  } else for (const kind of ["timeupdate", "seeked"]) film.addEventListener(kind, () => showPlaying(playerTime()));
  film.addEventListener("pause", () => { speed = Math.min(speed, 0); });
  for (const kind of ["wheel", "touchmove"]) list.addEventListener(kind, () => { follows = false; }, { passive: true });
  film.addEventListener("loadedmetadata", () => {
    film.hidden = false;
    note("", false);
    if (film.currentTime < beginning) seek(shots[selected].start_frame);
  });
  film.addEventListener("error", () => {
    film.hidden = true;
    note(`${data.film.name} was not found, or this browser cannot play its format.`, true);
  });
  byId("film-file").addEventListener("change", (event) => {
    const [chosen] = event.target.files;
    if (!chosen) return;
    film.hidden = false;
    film.src = URL.createObjectURL(chosen);
  });
  byId("frame-back").addEventListener("click", () => stepFrame(-1));
  byId("frame-on").addEventListener("click", () => stepFrame(1));
  byId("cut").addEventListener("click", cutHere);
  // Most films begin black.
  if (data.pictures) film.poster = pictureOf(shots[shotAt(beginning + duration / 3)]);
  if (data.film.source !== null) film.src = data.film.source;
  else {
    film.hidden = true;
    note(`${data.film.name} was not found when this page was made.`, true);
  }
}
