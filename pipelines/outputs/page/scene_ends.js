// Grouping of shots into scenes, as in pipelines/models/scene_ends.py and pipelines/scenes.py, so that the page shows the
// scenes of `bassl predict --threshold`. Nothing here touches the page.
"use strict";

/** The logarithm of the odds of a probability, kept finite. */
function logit(probability) {
  const clipped = Math.min(Math.max(probability, 1e-9), 1 - 1e-9);
  return Math.log(clipped) - Math.log1p(-clipped);
}

/** The number of values in an increasing list that are at most ``value``. */
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
 * The shots that end scenes, including the last shot: the choice with the greatest sum of logit(score) -
 * logit(threshold) among all without a scene shorter than minScene seconds.
 *
 * scores: of each shot; shotEnds: when each ends, in seconds; threshold: between 0 and 1.
 */
function chooseSceneEnds(scores, shotEnds, threshold, minScene) {
  const shots = scores.length;
  const least = logit(threshold);
  // The small constant makes a score equal to the threshold an end; the last shot is an end in any case.
  const gain = (i) => (i === shots - 1 ? 0 : logit(scores[i]) - least + 1e-12);
  const best = new Float64Array(shots).fill(-Infinity);
  const previous = new Int32Array(shots).fill(-1);
  // The best sum over the first j ends, and its end.
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
  const ends = [shots - 1];
  while (previous[ends.at(-1)] >= 0) ends.push(previous[ends.at(-1)]);
  return ends.reverse();
}

/** The nearest whole number; ties to even, as in Python. */
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

/** Text on one line, as in pipelines/outputs/exports/segments.py. */
function oneLine(text) {
  return text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, " ").replace(/[\p{Cs}\ufffe\uffff]/gu, "\ufffd").trim();
}

/** Shots cut at some frames, [frame, seconds] in increasing order. A person cut there, so the score is 1. */
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

/** The scenes of a scenes.json, from its shots and the indices of the shots that end scenes. */
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

/** Where groups of shots end for these scenes, and where groups outside scenes begin; in frames. */
function groupsAround(scenes, shots) {
  const first = shots[0].start_frame;
  const all = [...scenes.flatMap((scene) => [scene.start_frame, scene.end_frame]), shots.at(-1).end_frame];
  const ends = [...new Set(all)].filter((frame) => frame > first).sort((a, b) => a - b);
  const starts = new Set(scenes.map((scene) => scene.start_frame));
  return { ends, outside: [first, ...ends.slice(0, -1)].filter((frame) => !starts.has(frame)) };
}

/**
 * Names by scene index, for scenes that may have changed since they were named.
 *
 * A name ({ text, start_frame, end_frame }) goes to the scene that shares most frames with it; if several names go to a
 * scene, it has the one that shares most. So no name is lost when scenes change; the name of shots that are now outside
 * scenes waits.
 */
function nameScenes(scenes, names) {
  const best = new Map();
  for (const name of names) {
    const shared = (scene) => Math.min(scene.end_frame, name.end_frame) - Math.max(scene.start_frame, name.start_frame);
    const scene = scenes.reduce((a, b) => (shared(b) > shared(a) ? b : a));
    if (shared(scene) <= 0) continue;
    if (!best.has(scene.index) || shared(scene) > best.get(scene.index).frames) {
      best.set(scene.index, { name, frames: shared(scene) });
    }
  }
  return new Map([...best].map(([scene, { name }]) => [scene, name]));
}
