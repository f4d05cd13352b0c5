// Scenes in the formats that the page offers, as `bassl export` writes them (pipelines/outputs/exports).

const sceneTitle = (scene) => oneLine(scene.name ?? "") || `Scene ${scene.index + 1}`;

/** A number with fixed digits, as in Python: exact ties, which are sums of powers of two, go to even. */
const fixed = (value, digits) =>
  (Number.isInteger(value * 2 ** (digits + 1)) ? roundHalfEven(value * 10 ** digits) / 10 ** digits : value).toFixed(digits);

/** The CSV of pipelines/outputs/exports/lists.py. */
function csvOf(scenes) {
  const header = [
    "Scene Number", "Start Frame", "Start Timecode", "Start Time (seconds)", "End Frame", "End Timecode",
    "End Time (seconds)", "Length (frames)", "Length (timecode)", "Length (seconds)", "Name", "Confidence",
  ];
  const rows = scenes.map((scene) => {
    const { start_frame, end_frame, start, end } = scene;
    const title = sceneTitle(scene);
    return [
      scene.index + 1, start_frame + 1, timecode(start), fixed(start, 3), end_frame, timecode(end), fixed(end, 3),
      end_frame - start_frame, timecode(end - start), fixed(end - start, 3),
      // A spreadsheet evaluates a cell that begins like this as a formula.
      /^[=+@\uff1d\uff0b\uff0d\uff20-]/.test(title) ? `'${title}` : title,
      fixed(scene.confidence, 4),
    ];
  });
  const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  return [header, ...rows].map((row) => `${row.map(cell).join(",")}\n`).join("");
}

/** An SMPTE timecode, as in pipelines/outputs/exports/timeline.py, with ``base`` frames per second. */
function smpte(frame, base, drop) {
  let label = frame;
  if (drop) {
    const dropped = base / 15;
    const minute = 60 * base - dropped;
    const tens = Math.floor(frame / (10 * minute + dropped));
    const rest = frame % (10 * minute + dropped);
    label += dropped * (9 * tens + Math.floor(Math.max(0, rest - dropped) / minute));
  }
  const seconds = Math.floor(label / base);
  const parts = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60].map(two);
  return `${parts.join(":")}${drop ? ";" : ":"}${two(label % base)}`;
}

/** The CMX 3600 list of pipelines/outputs/exports/editing.py, for the timeline in the page's data. */
function edlOf(scenes, shots, timeline) {
  // By frames if the video has the rate of the timeline; else by time, as editing tools show such videos.
  let last = timeline.steady ? shots[0].start_frame : roundHalfEven(shots[0].start * timeline.rate);
  const places = new Map([[shots[0].start_frame, last]]);
  for (const shot of shots) {
    last = timeline.steady ? shot.end_frame : Math.max(last + 1, roundHalfEven(shot.end * timeline.rate));
    places.set(shot.end_frame, last);
  }
  const label = (frame) => smpte(frame, timeline.base, timeline.drop);
  const lines = [`TITLE: ${timeline.title}`, `FCM: ${timeline.drop ? "DROP FRAME" : "NON-DROP FRAME"}`, ""];
  let at = 0;
  for (const scene of scenes) {
    const cut = [places.get(scene.start_frame), places.get(scene.end_frame)];
    // Shots outside scenes are not in the record.
    const recorded = at + cut[1] - cut[0];
    const labels = [...cut.map((frame) => label(timeline.start + frame)), label(at), label(recorded)];
    at = recorded;
    const number = String(scene.index + 1).padStart(3, "0");
    lines.push(`${number}  AX       ${timeline.channels.padEnd(5)} C        ${labels.join(" ")}`);
    lines.push(`* FROM CLIP NAME: ${timeline.clip}`, `* COMMENT: ${sceneTitle(scene)}`);
    const { transition } = shots[scene.end_shot - 1];
    if (transition && transition.kind !== "cut") {
      lines.push(`* ENDS WITH ${transition.kind.toUpperCase()}: ${timecode(transition.start)} TO ${timecode(transition.end)}`);
    }
  }
  return `${lines.join("\n")}\n`;
}

// Chapters, as in pipelines/outputs/exports/lists.py.

function webvttOf(scenes) {
  const escaped = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const cue = (scene) => `${scene.index + 1}\n${timecode(scene.start)} --> ${timecode(scene.end)}\n${escaped(sceneTitle(scene))}\n`;
  return ["WEBVTT\n", ...scenes.map(cue)].join("\n");
}

function ffmetadataOf(scenes) {
  const chapter = (scene) => {
    const [start, end] = [scene.start, scene.end].map((seconds) => roundHalfEven(seconds * 1e6));
    const title = sceneTitle(scene).replace(/[=;#\\]/g, "\\$&");
    return `[CHAPTER]\nTIMEBASE=1/1000000\nSTART=${start}\nEND=${end}\ntitle=${title}\n`;
  };
  return `;FFMETADATA1\n${scenes.map(chapter).join("")}`;
}

function youtubeOf(scenes) {
  // A description must not have angle brackets.
  const title = (scene) => sceneTitle(scene).replaceAll("<", "\u2039").replaceAll(">", "\u203a");
  return scenes.map((scene) => `${clock(Math.floor(scene.start))} ${title(scene)}\n`).join("");
}
