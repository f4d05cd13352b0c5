// Grouping of shots into scenes, as in pipelines/models/scenes.py and pipelines/scenes.py, so that the page shows the
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

/** The best position in a range that only moves forward, the earliest of equals; better(a, b) compares positions. */
function movingBest(better) {
  const queue = []; // each is the best of the range from the one before it on
  let head = 0;
  let next = 0;
  return (start, stop) => {
    for (; next < stop; next += 1) {
      while (queue.length > head && better(next, queue.at(-1))) queue.pop();
      queue.push(next);
    }
    while (queue[head] < start) head += 1;
    return queue[head];
  };
}

/**
 * The shots that end scenes, including the last shot. Pins hold in any case. No scene is longer than maxScene seconds,
 * unless nothing inside can end one. Of all such choices with the fewest scenes shorter than minScene seconds, this is the
 * one with the greatest sum of logit(score) - logit(threshold).
 *
 * scores: of each shot; shotEnds: when each ends, in seconds; threshold: between 0 and 1; pins: whether a scene ends with
 * each shot: true in any case, false never, else the scores decide.
 */
function chooseSceneEnds(scores, shotEnds, threshold, minScene, maxScene = Infinity, pins = []) {
  // Only these shots can end scenes; those between them belong together.
  const possible = [...scores.keys()].filter((shot) => pins[shot] !== false || shot === scores.length - 1);
  const count = possible.length;
  const least = logit(threshold);
  // The small constant makes a score equal to the threshold an end; the last shot is an end in any case.
  const gain = (i) => (i === count - 1 ? 0 : logit(scores[possible[i]]) - least + 1e-12);
  const times = [0, ...possible.map((shot) => shotEnds[shot])];
  // Of the best choice up to possible end i: how many scenes are too short, the sum, and where the last scene begins.
  const short = new Int32Array(count + 1);
  const sum = new Float64Array(count + 1);
  const begin = new Int32Array(count + 1);
  const better = (a, b, more = 0) => short[a] + more < short[b] || (short[a] + more === short[b] && sum[a] > sum[b]);
  const bestLongEnough = movingBest(better);
  const bestTooShort = movingBest(better);
  let [first, enough] = [0, 0];
  for (let i = 1; i <= count; i += 1) {
    // A scene that ends before i may begin at first to i - 1, counted in possible ends; from enough on it is too short. It
    // cannot begin before the last pinned end.
    if (i > 1 && pins[possible[i - 2]]) first = i - 1;
    while (first < i - 1 && times[first] < times[i] - maxScene - 1e-9) first += 1;
    while (enough < i && times[enough] <= times[i] - minScene + 1e-9) enough += 1;
    const long = bestLongEnough(first, enough);
    const brief = bestTooShort(Math.max(first, enough), i);
    const isShort = long === undefined || (brief !== undefined && better(brief, long, 1));
    begin[i] = isShort ? brief : long;
    short[i] = short[begin[i]] + (isShort ? 1 : 0);
    sum[i] = sum[begin[i]] + gain(i - 1);
  }
  const ends = [];
  for (let i = count; i > 0; i = begin[i]) ends.push(possible[i - 1]);
  return ends.reverse();
}

/** The nearest whole number; ties to even, as in Python. */
function roundHalfEven(value) {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 ? floor + 1 : floor;
}

const two = (number) => String(number).padStart(2, "0");

/** HH:MM:SS.mmm */
function timecode(seconds) {
  const milliseconds = roundHalfEven(seconds * 1000);
  const whole = Math.floor(milliseconds / 1000);
  const [hours, minutes] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60];
  return `${two(hours)}:${two(minutes)}:${two(whole % 60)}.${String(milliseconds % 1000).padStart(3, "0")}`;
}

/** M:SS or H:MM:SS, rounded down. */
function clock(seconds) {
  const whole = Math.floor(seconds + 1e-6);
  const minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}:${two(whole % 60)}` : `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(whole % 60)}`;
}

/** Text on one line, as in pipelines/results/finding.py. */
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
      pieces.push({ ...rest, end_frame: frame, end: time, score: 1, transition: undefined, pinned: undefined });
      rest = { ...rest, start_frame: frame, start: time };
    }
    pieces.push(rest);
  }
  return pieces.map((shot, index) => ({ ...shot, index }));
}

/** Shots with these pins: [frame, whether a scene ends there], with a third entry if a program pinned it. */
function pinShots(shots, pins) {
  const answers = new Map(pins.map((pin) => [pin[0], pin]));
  return shots.map((shot) => {
    const [, pinned, pinned_by] = answers.get(shot.end_frame) ?? [];
    return { ...shot, pinned, pinned_by };
  });
}

/** The scenes of a scenes.json, from its shots and the frames where scenes begin and end. */
function groupShots(shots, ranges) {
  const endFrames = shots.map((shot) => shot.end_frame);
  return ranges.map(({ start_frame, end_frame }, index) => {
    const [start, end] = [countUpTo(endFrames, start_frame), countUpTo(endFrames, end_frame - 1)];
    const [first, last] = [shots[start], shots[end]];
    const borders = [];
    if (start > 0) borders.push(shots[start - 1]);
    if (end < shots.length - 1) borders.push(last);
    return {
      index,
      start_shot: start,
      end_shot: end + 1,
      start_frame,
      end_frame,
      start: first.start,
      end: last.end,
      start_timecode: timecode(first.start),
      end_timecode: timecode(last.end),
      confidence: Math.min(1, ...borders.map((shot) => (shot.pinned ? 1 : shot.score))),
    };
  });
}

/**
 * Names by scene index, for scenes that may have changed since they were named.
 *
 * A name ({ text, start_frame, end_frame }) goes to the scene that shares most frames with it; if several names go to a
 * scene, it has the one that shares most. So no name is lost when scenes change.
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
