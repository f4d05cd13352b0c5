// --- review mode ------------------------------------------------------------------------------------------------------

// One look at a time: a few shots in a row, with a mark on each boundary where a scene ends. Confirming a look pins its
// boundaries, and the threshold moves to the value with the best expected F1, given all pins.
/** The state that is reviewed, the first shot of the look and the marks on its boundaries; null if review mode is off. */
let reviewing = null;

/** The frames of scene ends that the last answer moved outside of its own shots, while its state is shown. */
let movedElsewhere = { state: null, frames: [] };

const reviewNow = (answers) => review(scores, answers, undefined, creditsOfVideo());
const answersOf = (pins) => new Map(pins.map(([frame, isEnd]) => [shotOf(frame - 1), isEnd]));

function startReview() {
  if (reviewing) return;
  reviewing = {};
  document.body.classList.add("reviewing");
  byId("review").hidden = false;
  scrollTo(0, 0);
  showReview();
  byId("review-title").focus();
}

function endReview() {
  if (!reviewing) return;
  reviewing = null;
  document.body.classList.remove("reviewing");
  byId("review").hidden = true;
  scrollToShot();
  focusShot();
}

/** Show the next look if the state has changed. */
function showReview() {
  if (!reviewing || reviewing.state === state) return;
  const answers = answersOf(state.pins);
  const { probabilities, window, least } = reviewNow(answers);
  const [first, stop] = window ?? [0, 0];
  reviewing = { state, first, marks: endFrames.slice(first, Math.max(stop - 1, 0)).map((frame) => ends.has(frame)) };

  byId("review-title").textContent = window ? `Question ${state.looks + 1}`
    : last ? "You have answered every boundary: nothing is left to review" : "This video has one shot: there is nothing to review";
  for (const id of ["review-made", "review-f1", "review-figures"]) byId(id).hidden = !last;
  byId("elsewhere").hidden = movedElsewhere.state !== state;
  byId("review-made").textContent = `${count(state.looks, "question")} answered · ${state.pins.length.toLocaleString("en")} of ${last.toLocaleString("en")} boundaries`;
  const chosen = [...probabilities.keys()].filter((cut) => ends.has(endFrames[cut]));
  const [hits, expected] = [chosen.map((cut) => probabilities[cut]), probabilities].map(sum);
  const f1 = expectedF1(probabilities, chosen);
  byId("review-f1").textContent = outlook(f1, expectedAfter(probabilities, new Map([...creditsOfVideo(), ...answers]), least, 10));
  byId("review-how").textContent = chosen.length
    ? `Expected F1 ${(100 * f1).toFixed(0)} %: 2 × ${hits.toFixed(1)} expected hits / (${count(chosen.length, "scene end")} + ${expected.toFixed(1)} expected in the video), from the probabilities in the bars: the scores, calibrated by your answers, which count as certain. “model” marks where the model ends a scene at the present threshold. This is its estimate, not a measurement.`
    : `Expected F1 ${(100 * f1).toFixed(0)} %: the probability that the video has no scene end, from the scores, calibrated by your answers. This is the model's estimate, not a measurement.`;
  byId("review-confirm").hidden = byId("review-question").hidden = !window;
  if (byId("review-shots").contains(document.activeElement)) byId("review-title").focus();
  byId("review-shots").replaceChildren(...shots.slice(first, stop).map((shot, i) => reviewTile(shot, i, probabilities[first + i - 1])));
  showMarks();
  if (window && (selected < first || selected >= stop)) select(first, { scrolls: false, focuses: false });
}

/** What to expect of a review, in a sentence. */
function outlook(f1, later) {
  const inTen = (value) => (value >= 0.95 ? "nearly all" : String(Math.round(10 * value)));
  const now = inTen(f1);
  if (now === "nearly all") return "Nearly all scene ends are right.";
  const more = { 1: "one more question makes", 10: "ten more questions make" }[later.looks] ?? `${later.looks} more questions make`;
  const then = inTen(later.f1);
  const gain = !later.looks || then === now ? "" : `; ${more} it ${then === "nearly all" ? then : `about ${then}`}`;
  return `About ${now} of 10 scene ends are right${gain}.`;
}

/** The i-th shot of a look, with the boundary before it. */
function reviewTile(shot, i, probability) {
  const element = byId("review-template").content.firstElementChild.cloneNode(true);
  const [boundary, frame] = element.children;
  if (data.images) frame.firstElementChild.src = imageOf(shot);
  const sides = sidesOf(shot);
  frame.querySelector(".sides").hidden = !sides;
  sides?.forEach((source, k) => { frame.querySelector(".sides").children[k].src = source; });
  frame.querySelector("b").textContent = shot.index + 1;
  frame.querySelector(".caption span").textContent = `${clock(shot.start)} · ${seconds(shot.end - shot.start)}`;
  frame.querySelector(".said").textContent = textOf(linesOf(shot));
  frame.setAttribute("aria-label", `Play from shot ${[...frame.querySelectorAll(".caption *, .said")].map((part) => part.textContent).join(" ")}`);
  frame.addEventListener("click", () => {
    select(shot.index, { scrolls: false, focuses: false });
    if (video.paused) play();
  });
  if (i === 0) {
    boundary.disabled = true;
    return element;
  }
  const isEnd = reviewing.marks[i - 1];
  const isDecided = isPinned(shot.index - 1);
  boundary.firstElementChild.textContent = i;
  const told = isDecided ? (shots[shot.index - 1].pinned_by ? "by a program" : "answered") : `${(100 * probability).toFixed(0)} %`;
  boundary.lastElementChild.textContent = told;
  boundary.lastElementChild.classList.toggle("figure", !isDecided);
  boundary.classList.toggle("guess", isEnd && !isDecided);
  boundary.title = isDecided ? "Already answered" : `The model: ${isEnd ? "a" : "no"} scene ends here`;
  boundary.setAttribute("aria-label", `Key ${i} ${told}: a scene ends between shots ${shot.index} and ${shot.index + 1}`);
  boundary.addEventListener("click", () => toggleMark(i));
  return element;
}

function showMarks() {
  const { first, marks } = reviewing;
  let isOdd = false;
  for (const [i, element] of [...byId("review-shots").children].entries()) {
    const isEnd = i > 0 && marks[i - 1];
    if (isEnd) isOdd = !isOdd;
    element.classList.toggle("odd", isOdd);
    element.classList.toggle("selected", first + i === selected);
    element.firstElementChild.setAttribute("aria-pressed", isEnd);
  }
}

/** Mark a boundary as a scene end, or not; counted from 1, as on the keys. */
function toggleMark(i) {
  if (i > reviewing.marks.length) return;
  reviewing.marks[i - 1] = !reviewing.marks[i - 1];
  showMarks();
  byId("review-shots").children[i].firstElementChild.focus();
}

/** Pin the boundaries of this look as they are marked. */
function confirmLook() {
  const { first, marks } = reviewing;
  if (!marks.length) return;
  const decided = marks.map((isEnd, i) => [endFrames[first + i], isEnd]);
  const pins = withPins(state.pins, decided);
  const looks = state.looks + 1;
  const before = ends;
  const next = { ...state, pins, looks, by: "threshold", threshold: reviewNow(answersOf(pins)).threshold };
  const byRule = followsThreshold() ? scenesBy(next) : null;
  if (byRule) change({ ...next, scenes: byRule }, `question ${looks}`);
  else change({ ...state, scenes: decided.reduce(answered, state.scenes), pins, looks, by: "hand" }, `question ${looks}`);
  showElsewhere(before, new Set(decided.map(([frame]) => frame)));
}

/** Say which scene ends the answer moved outside of its own shots: where they were `before` and are not, or the reverse. */
function showElsewhere(before, own) {
  const moved = (from, to) => [...from].filter((frame) => !to.has(frame) && !own.has(frame)).sort((a, b) => a - b);
  const parts = [[moved(before, ends), "removed"], [moved(ends, before), "added"]].filter(([frames]) => frames.length);
  const frames = parts.flatMap(([some]) => some);
  movedElsewhere = { state: frames.length ? state : null, frames };
  byId("elsewhere").hidden = !frames.length;
  if (!frames.length) return;
  const link = (frame) => {
    const shot = shotOf(frame);
    const button = make("button", clock(shots[shot].start));
    button.addEventListener("click", () => select(shot, { scrolls: false, focuses: false }));
    return button;
  };
  const back = make("button", "Undo this answer");
  back.addEventListener("click", undo);
  const told = parts.flatMap(([some, what], i) => [`${i ? "; " : "Scenes elsewhere: "}${count(some.length, "end")} ${what} `, ...some.map(link)]);
  byId("elsewhere").replaceChildren(make("span", ...told), back);
  draw();
}

/** Scenes after the answer whether one ends at a frame. */
function answered(ranges, [frame, isEnd]) {
  if (isEnd) return splitAt(ranges, frame);
  const i = ranges.findIndex((scene) => scene.start_frame === frame);
  return i > 0 ? joinAt(ranges, i) : ranges;
}
