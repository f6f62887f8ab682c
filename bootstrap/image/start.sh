#!/usr/bin/env bash
# What the image runs first: sshd where a key is given, then the command it was given, or else the baked zipapp.
# The provider's start command (passerelle pod create) is such a command: it fetches newer code, checks and runs it.
set -euo pipefail

if [[ -n ${PUBLIC_KEY:-} ]]; then
  install -d -m 700 /root/.ssh
  printf '%s\n' "$PUBLIC_KEY" >/root/.ssh/authorized_keys
  chmod 600 /root/.ssh/authorized_keys
  ssh-keygen -A >/dev/null # Host keys are made here: the same ones in every copy of an image would be no keys.
  install -d -m 755 /run/sshd
  /usr/sbin/sshd -o PasswordAuthentication=no -o PermitRootLogin=prohibit-password
fi

if [[ $# -gt 0 ]]; then
  exec "$@"
fi
: "${PASSERELLE_HUB:?name the store of the configuration, such as hf://datasets/OWNER/NAME}"
exec python3 -P /opt/passerelle/passerelle.pyz run --hub "$PASSERELLE_HUB" \
  --state "${PASSERELLE_STATE:-/workspace/passerelle}" --host 0.0.0.0
