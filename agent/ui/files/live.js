// Replaces the part of the page that changes, and keeps the focus and the scroll positions.
const main = document.getElementById("main"), state = document.getElementById("state");
let stream, latest;

function show() {
  const focus = document.activeElement;
  if (latest === undefined || focus?.tagName === "INPUT") return; // the person is typing
  const { scrollX, scrollY } = window;
  const sideways = [...main.querySelectorAll(".wide")].map((e) => e.scrollLeft);
  main.innerHTML = latest;
  latest = undefined;
  if (focus?.id) document.getElementById(focus.id)?.focus({ preventScroll: true });
  main.querySelectorAll(".wide").forEach((e, i) => { e.scrollLeft = sideways[i] ?? 0; });
  window.scrollTo(scrollX, scrollY);
}

function follow() {
  stream?.close();
  stream = undefined;
  if (document.hidden) return; // a browser allows few connections to a host
  stream = new EventSource(main.dataset.live);
  stream.onmessage = (event) => {
    state.textContent = "";
    latest = event.data;
    show();
  };
  stream.onerror = () => {
    state.textContent = stream.readyState === EventSource.CLOSED ? "ebb ui has ended, or was started anew" : "no connection to ebb ui; trying again";
  };
}

document.addEventListener("visibilitychange", follow);
document.addEventListener("focusout", () => setTimeout(show));
follow();
