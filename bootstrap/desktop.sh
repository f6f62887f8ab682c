#!/usr/bin/env bash
# A desktop in the browser: Xvfb, a window manager if there is one, x11vnc on loopback, noVNC on port 6080.
# desktop.sh STATE: the password is made here, kept in STATE/desktop.password (0600) and never printed.
set -euo pipefail

state=${1:?usage: desktop.sh STATE}
display=${DESKTOP_DISPLAY:-:99}
port=${DESKTOP_PORT:-6080}
password_file=$state/desktop.password
vnc_file=$state/desktop.vnc

for program in Xvfb x11vnc websockify; do
  if ! command -v "$program" >/dev/null; then
    echo "error: desktop: $program is not installed: apt-get install -y xvfb x11vnc novnc websockify openbox" >&2
    exit 1
  fi
done

umask 077
mkdir -p "$state"
if [[ ! -s $password_file ]]; then
  # VNC looks at eight characters and no more.
  head -c 64 /dev/urandom | base64 | tr -dc 'A-HJ-NP-Za-km-z2-9' | head -c 8 >"$password_file"
fi
x11vnc -storepasswd "$(cat "$password_file")" "$vnc_file" >/dev/null 2>&1

trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
Xvfb "$display" -screen 0 "${DESKTOP_SIZE:-1600x900x24}" -nolisten tcp &
export DISPLAY=$display
for _ in $(seq 50); do
  [[ -e /tmp/.X11-unix/X${display#:} ]] && break
  sleep 0.1
done
if command -v openbox >/dev/null; then
  openbox &
fi
x11vnc -display "$display" -localhost -rfbport 5900 -rfbauth "$vnc_file" -forever -shared -quiet &
websockify --web "${NOVNC:-/usr/share/novnc}" "0.0.0.0:$port" 127.0.0.1:5900 &
echo "info desktop: noVNC on port $port, its password in $password_file"
wait -n # One of them ended, and without it there is no desktop: the supervisor starts it anew.
