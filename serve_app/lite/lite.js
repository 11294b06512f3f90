// The plain page: one WebSocket for events, driving and stopping, requests for the rest. No build step, no library.
"use strict";

const $ = (id) => document.getElementById(id);
const NS = "http://www.w3.org/2000/svg";
const STALE_MS = 2500; // no state for so long: no connection
const SEND_MS = 1000 / 15; // velocities while a button is held; the robot stops by itself after 250 ms
const SURE_MS = 4000; // a second press within this time confirms

const client = sessionStorage.getItem("client") ?? `page-${Math.random().toString(16).slice(2, 6)}`;
sessionStorage.setItem("client", client);

let state = null; // newest state event
let heard = 0; // when it came
let view = null; // what the map shows, see showMap
let limits = { vx: 1, vy: 0.5, omega: 1.2 };

// requests

async function request(method, path, body, timeout = 15000) {
  const answer = await fetch(`/api${path}`, {
    method,
    headers: { "X-Rhino-Client": client, "Content-Type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: AbortSignal.timeout(timeout),
    keepalive: true, // a stop that was pressed while the page closes still goes out
  });
  if (answer.status === 401) askForToken();
  const text = await answer.text();
  const value = text ? JSON.parse(text) : null;
  if (!answer.ok) throw Object.assign(new Error(value?.message ?? answer.statusText), value);
  return value;
}

/** Do something for the user, and say why when it does not work. */
async function act(work, done) {
  try {
    const value = await work();
    if (done) toast(typeof done === "function" ? done(value) : done);
    return value;
  } catch (error) {
    explain(error);
    return null;
  }
}

function explain(error) {
  const silent = error.code === undefined;
  toast(silent ? "The server does not answer." : error.message, silent ? "" : error.hint, true);
  if (error.code === "CONTROL_HELD") $("take").hidden = false;
}

function toast(message, hint = "", isError = false) {
  const box = document.createElement("div");
  box.className = isError ? "toast error" : "toast";
  const text = document.createElement("p");
  text.textContent = message;
  if (hint) {
    const small = document.createElement("small");
    small.textContent = hint;
    text.append(small);
  }
  box.append(text);
  if (isError) {
    const close = document.createElement("button");
    close.textContent = "×";
    close.setAttribute("aria-label", "dismiss");
    close.onclick = () => box.remove();
    box.append(close);
  }
  if (!isError) document.querySelectorAll(".toast:not(.error)").forEach((old) => old.remove());
  $("toasts").append(box);
  while ($("toasts").children.length > 3) $("toasts").firstChild.remove();
  setTimeout(() => box.remove(), isError ? 12000 : 3000);
}

function askForToken() {
  $("token-form").hidden = false;
}

$("token-form").onsubmit = async (event) => {
  event.preventDefault();
  const body = JSON.stringify({ token: $("token").value.trim() });
  const answer = await fetch("/api/session", { method: "POST", body });
  if (answer.ok) location.reload();
  else toast("That is not the token.", "rhino token prints it, on the robot's machine.", true);
};

// events

let socket = null;
let lastId = ""; // of the newest event: what was missed comes when the socket is opened again
let read = 0; // number of the newest message; the server drops who does not acknowledge
let asked = 0;
const waiting = new Map(); // number of a command -> what to do with its answer

const handlers = {
  state(value) {
    state = value;
    heard = performance.now();
    showState();
  },
  nav: showNav,
  map_update: () => refreshMap(),
  poi_update: () => refreshPois(),
};

function listen() {
  socket?.close();
  const scheme = location.protocol === "https:" ? "wss" : "ws";
  const own = new WebSocket(`${scheme}://${location.host}/api/ws?client=${client}&last_event_id=${lastId}`);
  socket = own;
  own.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    read = Math.max(read, message.n);
    if (message.type === "event") {
      lastId = message.id;
      handlers[message.event]?.(message.data);
    } else if (message.type === "answer") {
      waiting.get(message.seq)?.(message);
      waiting.delete(message.seq);
    }
  };
  own.onopen = () => {
    read = 0;
  };
  own.onclose = () => {
    if (own !== socket) return;
    waiting.forEach((done) => done({ ok: false, error: {} }));
    waiting.clear();
    checkAccess(); // refused, or broken: watch() opens it again
  };
}

const isOpen = () => socket?.readyState === WebSocket.OPEN;

/** Send a command over the socket; by a request while there is none, so that a stop always finds a way. */
async function command(type, path, fields = {}, timeout = 15000) {
  if (!isOpen()) return request("POST", path, fields, timeout);
  const seq = ++asked;
  const answer = await new Promise((resolve) => {
    waiting.set(seq, resolve);
    setTimeout(() => resolve({ ok: false, error: {} }), timeout);
    socket.send(JSON.stringify({ type, seq, ...fields }));
  });
  waiting.delete(seq);
  if (!answer.ok) throw Object.assign(new Error(answer.error.message ?? "no answer"), answer.error);
  return answer.result;
}

setInterval(() => {
  if (isOpen() && read) socket.send(JSON.stringify({ type: "ack", n: read }));
}, 1000);

async function checkAccess() {
  try {
    if ((await fetch("/api/state")).status === 401) askForToken();
  } catch {
    // No server: watch() keeps trying.
  }
}

let opened = performance.now();

function watch() {
  const now = performance.now();
  const isLost = now - heard > STALE_MS;
  const link = $("link");
  link.classList.toggle("lost", isLost);
  if (isLost) {
    link.textContent = "no connection";
    link.classList.remove("part");
    $("marker").classList.add("stale");
    const isClosed = socket.readyState === WebSocket.CLOSED;
    if (now - opened > (isClosed ? 1500 : 8000) && !document.hidden) {
      opened = now;
      listen();
    }
  }
  showAge();
}

// what is shown

const meters = (value) => `${value.toFixed(2)} m`;
const words = (text) => text.replaceAll("_", " ").toLowerCase();

function showState() {
  const { pose, odom_pose, localisation, gate, mission, nav, rates, ages, status, unavailable } = state;
  $("robot").textContent = state.robot;
  document.title = `${state.robot} · rhino`;
  $("sim").hidden = !state.simulated;
  const isLate = ages && (ages.odometry === null || ages.odometry > 1);
  const link = $("link");
  link.classList.toggle("part", unavailable.length > 0 || Boolean(isLate));
  link.textContent = unavailable.length ? `${unavailable.join(", ")} restarting` : isLate ? "no pose" : "connected";

  $("pose").textContent = pose
    ? `x ${meters(pose.x)}, y ${meters(pose.y)}, ${((pose.yaw * 180) / Math.PI).toFixed(0)}°`
    : odom_pose
      ? "on the map: not known"
      : "not known yet";
  showPlace(localisation);
  const marker = $("marker");
  marker.classList.toggle("stale", !pose || Boolean(isLate));
  if (pose) {
    marker.setAttribute("visibility", "visible");
    marker.setAttribute("transform", `translate(${pose.x} ${-pose.y}) rotate(${(-pose.yaw * 180) / Math.PI})`);
  } else if (localisation) {
    marker.setAttribute("visibility", "hidden"); // it knows that it does not know
  }

  $("nav").textContent = nav ? navText(nav) : "planner restarting";
  const isActive = Boolean(nav) && ["planning", "following", "recovering", "paused"].includes(nav.state);
  $("cancel").hidden = !isActive;
  if (nav && !isActive) hideGoal();

  const explores = mission?.state === "running";
  const isPaused = mission?.state === "paused_by_user";
  $("mission").textContent = mission ? missionText(mission) : "explorer restarting";
  $("explore").disabled = !mission || explores || isPaused;
  $("explore-resume").hidden = !isPaused;
  $("explore-stop").disabled = !explores && !isPaused;

  if (gate) showGate(gate);
  if (status) {
    $("battery").textContent = `${status.battery.toFixed(0)} %`;
    const real = status.realtime_factor === null ? "" : `, ${status.realtime_factor.toFixed(2)}× real time`;
    $("posture").textContent = `${status.posture}, link ${status.link}${real}`;
    $("faults").textContent = status.faults.join(" ");
    $("faults").hidden = $("fault-name").hidden = status.faults.length === 0;
  }
  if (rates) {
    $("rates").textContent =
      `pose ${rates.odometry.toFixed(0)}, lidar ${rates.lidar.toFixed(1)}, camera ${rates.camera.toFixed(0)}, control ${rates.control.toFixed(0)} Hz`;
  }
}

/** Say whether the robot knows its place, while a saved map is loaded. */
function showPlace(localisation) {
  const isOnLoaded = Boolean(localisation) && localisation.state !== "unknown";
  $("place").hidden = $("place-name").hidden = !isOnLoaded;
  if (!isOnLoaded) return;
  $("place").textContent = localisation.sentence;
  $("place").classList.toggle("bad", localisation.state !== "localised");
}

function navText(nav) {
  const who = nav.client ? ` for ${nav.client}` : "";
  if (nav.state === "idle") return "none";
  if (nav.state === "arrived") return "arrived";
  if (nav.state === "failed") return `failed: ${nav.message || words(nav.reason)}`;
  if (nav.state === "cancelled") return nav.reason ? `cancelled (${words(nav.reason)})` : "cancelled";
  const eta = nav.eta === null ? "" : `, ${nav.eta.toFixed(0)} s`;
  const why = nav.reason ? `: ${nav.message || words(nav.reason)}` : "";
  return `${nav.state}${who}, ${meters(nav.distance_remaining)} to go${eta}${why}`;
}

function missionText(mission) {
  if (mission.state === "idle") return "none";
  const why = mission.message ? `: ${mission.message}` : "";
  return `${mission.kind} ${words(mission.state)}, ${mission.known_area.toFixed(1)} m² known${why}`;
}

function showGate(gate) {
  limits = { vx: gate.max_vx, vy: gate.max_vy, omega: gate.max_omega };
  const isMine = gate.holder === client;
  $("holder").textContent = !gate.holder ? "nobody drives" : isMine ? "you drive" : `${gate.holder} drives`;
  if (isMine || !gate.holder) $("take").hidden = true;
  const { vx, vy, omega } = gate.applied;
  const moving = `${vx.toFixed(2)}, ${vy.toFixed(2)} m/s, ${omega.toFixed(2)} rad/s`;
  $("gate").textContent = gate.reason ? `${words(gate.reason)} (${moving})` : moving;
  document.body.classList.toggle("is-latched", gate.latched);
  $("latched").hidden = !gate.latched;
  if (gate.latched) {
    const since = new Date(gate.latched_since * 1000).toLocaleTimeString();
    $("latched-text").textContent = `EMERGENCY STOP by ${gate.latched_by}, ${since}`;
  }
  for (const button of document.querySelectorAll("[data-drive], #explore, #stand")) {
    if (gate.latched) button.disabled = true;
    else if (button.id !== "explore") button.disabled = false;
  }
}

function showNav(nav) {
  const points = nav.path.map(([x, y]) => `${x},${-y}`).join(" ");
  $("path").setAttribute("points", nav.goal ? points : "");
  if (nav.goal) showGoal(nav.goal.x, nav.goal.y, false);
  else hideGoal();
}

let askedAt = 0;

function showGoal(x, y, isAsked) {
  const goal = $("goal");
  goal.setAttribute("transform", `translate(${x} ${-y})`);
  goal.setAttribute("visibility", "visible");
  goal.classList.toggle("asked", isAsked);
  askedAt = isAsked ? performance.now() : 0;
}

function hideGoal() {
  if (askedAt && performance.now() - askedAt < 3000) return; // asked for a moment ago, not answered yet
  $("goal").setAttribute("visibility", "hidden");
  $("path").setAttribute("points", "");
}

// map

let mapWanted = false;
let mapBusy = false;

async function refreshMap() {
  mapWanted = true;
  if (mapBusy) return;
  mapBusy = true;
  while (mapWanted) {
    mapWanted = false;
    try {
      const answer = await fetch("/api/map/raw", { signal: AbortSignal.timeout(10000) });
      if (answer.ok) await showMap(answer);
    } catch {
      await pause(1000);
    }
  }
  mapBusy = false;
}

async function showMap(answer) {
  const number = (name) => Number(answer.headers.get(`X-Map-${name}`));
  const isEmpty = answer.headers.get("X-Map-Empty") === "true";
  $("map-empty").hidden = !isEmpty;
  const url = URL.createObjectURL(await answer.blob());
  const old = view?.url;
  const resolution = number("Resolution");
  const width = number("Width") * resolution;
  const height = number("Height") * resolution;
  view = { url, left: number("Origin-X"), top: number("Origin-Y") + height, width, height };
  const image = $("map-image");
  image.setAttribute("visibility", isEmpty ? "hidden" : "visible");
  image.setAttribute("href", url);
  image.setAttribute("x", view.left);
  image.setAttribute("y", -view.top);
  image.setAttribute("width", width);
  image.setAttribute("height", height);
  if (old) setTimeout(() => URL.revokeObjectURL(old), 2000);
  $("map-size").textContent = isEmpty ? "no map yet" : `${width.toFixed(1)} × ${height.toFixed(1)} m, ${resolution} m per cell`;
  fitMap();
}

/** Show the whole map, at least 6 m of it, and keep signs the same size on the screen. */
function fitMap() {
  if (!view) return;
  const margin = 0.3;
  const width = Math.max(6, view.width + 2 * margin);
  const height = Math.max(6, view.height + 2 * margin);
  const x = view.left + view.width / 2 - width / 2;
  const y = -view.top + view.height / 2 - height / 2;
  $("map").setAttribute("viewBox", `${x} ${y} ${width} ${height}`);
  sizeLabels();
}

function sizeLabels() {
  const pixel = 1 / ($("map").getScreenCTM()?.a || 50); // metres per screen pixel
  for (const text of document.querySelectorAll(".poi text")) {
    text.setAttribute("font-size", 13 * pixel);
    text.setAttribute("stroke-width", 3 * pixel);
    text.setAttribute("x", 9 * pixel);
    text.setAttribute("y", 4 * pixel);
  }
  for (const circle of document.querySelectorAll(".poi circle")) circle.setAttribute("r", 5 * pixel);
}

/** Return where in the world [m] a pointer is, whatever the size and scale of the map on the screen. */
function worldAt(event) {
  const matrix = $("map").getScreenCTM();
  if (!matrix || !view) return null;
  const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix.inverse());
  return { x: point.x, y: -point.y };
}

const rounded = (value) => Math.round(value * 1000) / 1000;

$("map").addEventListener("click", (event) => {
  const at = worldAt(event);
  if (!at || state === null) return;
  showGoal(at.x, at.y, true);
  act(
    () => request("POST", "/navigate", { x: rounded(at.x), y: rounded(at.y) }),
    (nav) => {
      showNav(nav);
      return `Going to ${at.x.toFixed(2)}, ${at.y.toFixed(2)}.`;
    },
  ).then((nav) => {
    if (nav) return;
    askedAt = 0;
    hideGoal();
    request("GET", "/navigate/status").then(showNav, () => {});
  });
});
$("map").addEventListener("pointermove", (event) => {
  const at = worldAt(event);
  $("cursor").textContent = at ? `x ${meters(at.x)}, y ${meters(at.y)}` : "";
});
$("map").addEventListener("pointerleave", () => ($("cursor").textContent = ""));
addEventListener("resize", sizeLabels);

// camera: the next picture is asked for when the last one is here, so there is never an old one in between

let frameAt = 0; // when the frame that is shown was taken, on this page's clock
let frameNote = "waiting for the camera";

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function watchCamera() {
  const image = $("camera");
  let seq = 0;
  for (;;) {
    if (document.hidden) {
      await pause(300);
      continue;
    }
    const started = performance.now();
    try {
      const answer = await fetch(`/api/camera/frame?newer_than=${seq}&wait=3`, { signal: AbortSignal.timeout(8000) });
      if (answer.status === 200) {
        seq = Number(answer.headers.get("X-Frame-Seq"));
        const age = Number(answer.headers.get("X-Frame-Age") ?? 0) * 1000;
        const url = URL.createObjectURL(await answer.blob());
        image.src = url;
        await image.decode().catch(() => {});
        URL.revokeObjectURL(url);
        frameAt = performance.now() - age;
      } else if (answer.status !== 204) {
        frameNote = (await answer.json()).message;
        seq = 0;
        await pause(2000);
      }
    } catch {
      frameNote = "no connection";
      seq = 0;
      await pause(1500);
    }
    await pause(Math.max(0, 80 - (performance.now() - started)));
  }
}

function showAge() {
  const age = frameAt ? (performance.now() - frameAt) / 1000 : Infinity;
  $("camera").hidden = age > 30;
  $("camera").classList.toggle("old", age > 1);
  $("camera-none").hidden = age <= 30;
  $("camera-none").textContent = frameNote;
  $("camera-age").textContent = age > 30 ? "" : age > 1 ? `no picture for ${age.toFixed(0)} s` : `${(age * 1000).toFixed(0)} ms`;
}

// stop, e-stop, and the other buttons

/** Stop by both ways at once: a socket may be broken without knowing it. */
function halt(how) {
  const byRequest = request("POST", `/${how}`, {});
  return isOpen() ? Promise.any([command(how, `/${how}`), byRequest]).catch(() => byRequest) : byRequest;
}

$("stop").onclick = () => act(() => halt("stop"), "Stopped.");
$("estop").onclick = () => act(() => halt("estop"), "Emergency stop.");
$("cancel").onclick = () => act(() => request("POST", "/navigate/cancel"), "Goal cancelled.");
$("explore").onclick = () => act(() => request("POST", "/explore/start"), "Exploring.");
$("explore-resume").onclick = () => act(() => request("POST", "/explore/resume"), "Exploring again.");
$("explore-stop").onclick = () => act(() => request("POST", "/explore/stop"), "Exploration stopped.");
$("stand").onclick = () => act(() => request("POST", "/cmd/StandUp", undefined, 30000), "Standing.");
$("lie").onclick = () => act(() => request("POST", "/cmd/StandDown", undefined, 30000), "Lying down.");
$("take").onclick = () =>
  act(
    () => command("take", "/control/take"),
    (answer) => (answer.taken_from ? `Taken over from ${answer.taken_from}.` : "You drive."),
  );
twice($("clear"), "Clear", "Press again to clear", () => act(() => command("estop_clear", "/estop/clear"), "Cleared. Nothing resumes by itself."));

/** Make a button ask for a second press before it acts. */
function twice(button, text, sure, work) {
  let timer = 0;
  const calm = () => {
    clearTimeout(timer);
    timer = 0;
    button.textContent = text;
    button.classList.remove("sure");
  };
  calm();
  button.onclick = () => {
    if (timer) {
      calm();
      work();
      return;
    }
    button.textContent = sure;
    button.classList.add("sure");
    timer = setTimeout(calm, SURE_MS);
  };
}

// driving: a button or key is held, velocities go out one after the other, the last one is zero

const MOVES = {
  KeyW: [1, 0, 0],
  KeyS: [-1, 0, 0],
  KeyQ: [0, 1, 0],
  KeyE: [0, -1, 0],
  KeyA: [0, 0, 1],
  KeyD: [0, 0, -1],
};
const held = new Set();
let isDriving = false;

function twist() {
  let [vx, vy, omega] = [0, 0, 0];
  for (const code of held) {
    vx += MOVES[code][0];
    vy += MOVES[code][1];
    omega += MOVES[code][2];
  }
  const speed = Number($("speed").value);
  const length = Math.hypot(vx, vy) || 1;
  return {
    vx: Math.min(speed, limits.vx) * (vx / length),
    vy: Math.min(speed, limits.vy) * (vy / length),
    omega: Math.min(1.5 * speed + 0.3, limits.omega) * omega,
  };
}

async function drive() {
  if (isDriving) return;
  isDriving = true;
  try {
    while (held.size) {
      const started = performance.now();
      await command("velocity", "/velocity", twist(), 1000);
      await pause(Math.max(0, SEND_MS - (performance.now() - started)));
    }
  } catch (error) {
    letGo();
    explain(error);
  }
  // After the last velocity has been answered, so that nothing overtakes the zero.
  await command("velocity", "/velocity", { vx: 0, vy: 0, omega: 0 }, 1000).catch(() => {});
  isDriving = false;
  if (held.size) drive();
}

function hold(code) {
  held.add(code);
  show();
  drive();
}

function release(code) {
  held.delete(code);
  show();
}

function letGo() {
  held.clear();
  show();
}

function show() {
  for (const button of document.querySelectorAll("[data-drive]")) {
    button.classList.toggle("held", held.has(button.dataset.drive));
  }
}

for (const button of document.querySelectorAll("[data-drive]")) {
  const code = button.dataset.drive;
  button.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    button.setPointerCapture(event.pointerId);
    hold(code);
  });
  for (const end of ["pointerup", "pointercancel", "lostpointercapture"]) {
    button.addEventListener(end, () => release(code));
  }
  button.addEventListener("contextmenu", (event) => event.preventDefault());
}

const pad = $("pad");
pad.addEventListener("keydown", (event) => {
  if (event.code === "Space") {
    event.preventDefault();
    letGo();
    act(() => halt("stop"), "Stopped.");
  } else if (event.code in MOVES && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    const isLatched = state?.gate?.latched;
    if (!event.repeat && !isLatched) hold(event.code);
  }
});
addEventListener("keyup", (event) => release(event.code));
pad.addEventListener("focusin", () => {
  pad.classList.add("armed");
  $("armed").textContent = "Keyboard on: W A S D Q E, Space stops.";
});
pad.addEventListener("focusout", (event) => {
  if (pad.contains(event.relatedTarget)) return;
  pad.classList.remove("armed");
  $("armed").textContent = "Hold a button. Click here for the keyboard.";
  letGo();
});
addEventListener("blur", letGo);
addEventListener("pagehide", letGo);
document.addEventListener("visibilitychange", () => {
  if (document.hidden) letGo();
});
addEventListener("keydown", (event) => {
  if (event.code === "Escape") {
    letGo();
    act(() => halt("stop"), "Stopped.");
  }
});
$("speed").oninput = () => ($("speed-value").textContent = `${Number($("speed").value).toFixed(2)} m/s`);

// places

async function refreshPois() {
  let pois;
  try {
    pois = await request("GET", "/pois");
  } catch {
    return;
  }
  $("poi-list").replaceChildren(...(pois.length ? pois.map(poiRow) : [emptyRow()]));
  $("pois").replaceChildren(...pois.map(poiSign));
  sizeLabels();
}

function emptyRow() {
  const row = document.createElement("li");
  row.className = "none";
  row.textContent = "None yet. Name the place where the robot is.";
  return row;
}

function poiRow(poi) {
  const row = document.createElement("li");
  row.dataset.testid = "poi";
  const name = Object.assign(document.createElement("span"), { className: "name", textContent: poi.label, title: poi.label, dir: "auto" });
  const at = Object.assign(document.createElement("span"), { className: "at", textContent: `${poi.x.toFixed(1)}, ${poi.y.toFixed(1)}` });
  const go = Object.assign(document.createElement("button"), { className: "small", textContent: "Go" });
  go.dataset.testid = "poi-go";
  go.onclick = () => act(() => request("POST", `/pois/${encodeURIComponent(poi.id)}/navigate`), `Going to ${poi.label}.`);
  const remove = Object.assign(document.createElement("button"), { className: "small" });
  remove.dataset.testid = "poi-delete";
  twice(remove, "Delete", "Sure?", () => act(() => request("DELETE", `/pois/${encodeURIComponent(poi.id)}`)).then(refreshPois));
  row.append(name, at, go, remove);
  return row;
}

function poiSign(poi) {
  const sign = document.createElementNS(NS, "g");
  sign.setAttribute("class", "poi");
  sign.setAttribute("transform", `translate(${poi.x} ${-poi.y})`);
  const text = document.createElementNS(NS, "text");
  text.textContent = [...poi.label].slice(0, 24).join("");
  sign.append(document.createElementNS(NS, "circle"), text);
  return sign;
}

$("poi-form").onsubmit = (event) => {
  event.preventDefault();
  const label = $("poi-label").value;
  act(() => request("POST", "/pois", { label }), "Place added.").then((poi) => {
    if (!poi) return;
    $("poi-label").value = "";
    refreshPois();
  });
};

listen();
watchCamera();
refreshMap();
setInterval(watch, 250);
