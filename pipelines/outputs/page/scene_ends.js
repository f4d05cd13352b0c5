// Shots into scenes: the rules of pipelines/models/scene_ends.py and pipelines/scenes.py, so that what the page shows
// is what `bassl predict --threshold` finds. Nothing here touches the page.
"use strict";

/** The logarithm of the odds of a probability, kept finite. */
function logit(probability) {
  const clipped = Math.min(Math.max(probability, 1e-9), 1 - 1e-9);
  return Math.log(clipped) - Math.log1p(-clipped);
}

/** How many of some increasing numbers are no greater than a value. */
function countUpTo(numbers, value) {
  let low = 0;
  let high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * The shots that end scenes, the last one included: of all choices that leave no scene shorter than minScene seconds,
 * the one with the greatest sum of logit(score) - logit(threshold).
 *
 * scores: of each shot; shotEnds: when each ends, in seconds; threshold: between 0 and 1.
 */
function chooseSceneEnds(scores, shotEnds, threshold, minScene) {
  const shots = scores.length;
  const least = logit(threshold);
  // The small constant decides for an end where a score equals the threshold; the video ends with its last shot anyway.
  const gain = (i) => (i === shots - 1 ? 0 : logit(scores[i]) - least + 1e-12);
  const best = new Float64Array(shots).fill(-Infinity);
  const previous = new Int32Array(shots).fill(-1);
  // The best over the first j ends, and which it is.
  const running = new Float64Array(shots + 1).fill(-Infinity);
  const runningAt = new Int32Array(shots + 1).fill(-1);
  for (let i = 0; i < shots; i += 1) {
    const worth = gain(i);
    const before = Math.min(countUpTo(shotEnds, shotEnds[i] - minScene + 1e-9), i);
    // A video shorter than the minimum is one scene.
    if (i === shots - 1 || shotEnds[i] >= minScene - 1e-9) best[i] = worth;
    if (best[i] < running[before] + worth) {
      best[i] = running[before] + worth;
      previous[i] = runningAt[before];
    }
    const better = best[i] > running[i];
    running[i + 1] = better ? best[i] : running[i];
    runningAt[i + 1] = better ? i : runningAt[i];
  }
  const chosen = [shots - 1];
  while (previous[chosen[chosen.length - 1]] >= 0) chosen.push(previous[chosen[chosen.length - 1]]);
  return chosen.reverse();
}

/** The nearest whole number; of two as near, the even one, as Python rounds. */
function roundHalfEven(value) {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 ? floor + 1 : floor;
}

/** HH:MM:SS.mmm */
function timecode(seconds) {
  const milliseconds = roundHalfEven(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const whole = Math.floor(milliseconds / 1000);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return `${two(hours)}:${two(minutes)}:${two(whole % 60)}.${String(milliseconds % 1000).padStart(3, "0")}`;
}

/** Text on one line, as pipelines/outputs/exports/segments.py makes it. */
function oneLine(text) {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, " ").replace(/[\p{Cs}\ufffe\uffff]/gu, "\ufffd").trim();
}

/** Shots cut in two at some frames: [frame, seconds] each, increasing. A person cut there, so the score is 1. */
function cutShots(shots, cuts) {
  if (!cuts.length) return shots;
  const pieces = [];
  for (const shot of shots) {
    let rest = shot;
    for (const [frame, time] of cuts) {
      if (frame <= rest.start_frame || frame >= rest.end_frame) continue;
      pieces.push({ ...rest, end_frame: frame, end: time, score: 1, transition: undefined });
      rest = { ...rest, start_frame: frame, start: time };
    }
    pieces.push(rest);
  }
  return pieces.map((shot, index) => ({ ...shot, index }));
}

/** The scenes of scenes.json, from its shots and the indices of those that end scenes. */
function groupShots(shots, ends) {
  let start = 0;
  return ends.map((end, index) => {
    const [first, last] = [shots[start], shots[end]];
    const borders = [];
    if (start > 0) borders.push(shots[start - 1].score);
    if (end < shots.length - 1) borders.push(last.score);
    const scene = {
      index,
      start_shot: start,
      end_shot: end + 1,
      start_frame: first.start_frame,
      end_frame: last.end_frame,
      start: first.start,
      end: last.end,
      start_timecode: timecode(first.start),
      end_timecode: timecode(last.end),
      confidence: borders.length ? Math.min(...borders) : 1,
    };
    start = end + 1;
    return scene;
  });
}

/** Where groups of shots end if these are the scenes, and where the groups begin that belong to no scene; in frames. */
function groupsAround(scenes, shots) {
  const first = shots[0].start_frame;
  const all = [...scenes.flatMap((scene) => [scene.start_frame, scene.end_frame]), shots.at(-1).end_frame];
  const ends = [...new Set(all)].filter((frame) => frame > first).sort((a, b) => a - b);
  const starts = new Set(scenes.map((scene) => scene.start_frame));
  return { ends, outside: [first, ...ends.slice(0, -1)].filter((frame) => !starts.has(frame)) };
}

/**
 * Names for scenes that have changed since they were named, by the index of the scene.
 *
 * A name ({ text, start_frame, end_frame }) goes to the scene with most of the frames that were named; of several names
 * a scene has the one with most frames there. So a name outlives other scenes in between, and none is ever lost; one of shots
 * that belong to no scene now waits for them.
 */
function nameScenes(scenes, names) {
  const given = new Map();
  for (const name of names) {
    const shared = (scene) => Math.min(scene.end_frame, name.end_frame) - Math.max(scene.start_frame, name.start_frame);
    const scene = scenes.reduce((best, one) => (shared(one) > shared(best) ? one : best));
    if (shared(scene) <= 0) continue;
    if (!given.has(scene.index) || shared(scene) > given.get(scene.index).frames) {
      given.set(scene.index, { name, frames: shared(scene) });
    }
  }
  return new Map([...given].map(([scene, { name }]) => [scene, name]));
}
